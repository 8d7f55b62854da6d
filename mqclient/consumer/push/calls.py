"""Calls of handlers: those that wait, and those that a thread makes one after the other."""

import contextlib
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from mqclient.consumer.context import ConsumeContext, Handler
from mqclient.consumer.handlers import OneMessage
from mqclient.consumer.process_queue import ProcessQueue
from mqcommon.message import ReceivedMessage, set_consume_start

__all__ = ["ConsumeRequest", "Part", "Parts", "Run"]


class ConsumeRequest:
    """One call of a handler: some messages of one queue."""

    __slots__ = ("context", "handler", "held", "messages", "started_ms")

    def __init__(
        self, held: ProcessQueue, messages: list[ReceivedMessage], handler: Handler
    ) -> None:
        self.held = held
        self.messages = messages
        self.handler = handler
        self.context = ConsumeContext(held.shown)
        self.started_ms = 0

    def call(self) -> Any:
        """Note when the handler gets the messages, and call it with a list of its own."""
        self.started_ms = now_ms = time.time_ns() // 1_000_000
        set_consume_start(self.messages, now_ms)
        return self.handler(self.messages[:], self.context)


class Part:
    """Messages of one queue for one handler, which gets `size` of them at a time."""

    __slots__ = ("at", "handler", "held", "messages", "size")

    def __init__(
        self, held: ProcessQueue, messages: list[ReceivedMessage], handler: Handler, size: int
    ) -> None:
        self.held = held
        self.messages = messages
        self.handler = handler
        self.size = size
        self.at = 0

    @property
    def calls_left(self) -> int:
        """How many calls have not begun."""
        return -((self.at - len(self.messages)) // self.size)


class Parts(deque[Part]):
    """The backlog of calls, in the order of submission."""

    def take(self) -> ConsumeRequest:
        """Make the next call only now: the backlog is mostly plain lists of messages."""
        part = self[0]
        messages, start = part.messages, part.at
        part.at = end = start + part.size
        if end >= len(messages):
            self.popleft()
        if start or end < len(messages):  # the whole list, which frees it at once
            messages = messages[start:end]
        return ConsumeRequest(part.held, messages, part.handler)

    def remove_if(self, unwanted: "Callable[[Part], bool]") -> "list[Part]":
        """Remove the unwanted parts, and return them."""
        parts = [(part, unwanted(part)) for part in self]
        self.clear()
        self.extend(part for part, is_unwanted in parts if not is_unwanted)
        return [part for part, is_unwanted in parts if is_unwanted]


class Run:
    """Calls that a thread makes one after the other, and reports together.

    Another thread may take the calls that are left, because `calls.popleft` is atomic.
    """

    __slots__ = ("_function", "calls", "consume_s", "handled", "handler", "held", "others")

    def __init__(self, part: Part) -> None:
        """Take all calls that are left of a part whose size is one message."""
        self.held = part.held
        self.handler = handler = part.handler
        self._function = handler.function if type(handler) is OneMessage else None
        messages, at = part.messages, part.at
        self.calls = deque(messages[at:] if at else messages)
        part.at = len(messages)
        self.handled: list[ReceivedMessage] = []
        """Messages whose handler returned None."""
        self.consume_s = 0.0
        """Seconds that all calls took; known at the end."""
        self.others: list[tuple[ConsumeRequest, Any]] = []
        """The other calls, with their outcomes."""

    def call(self, message: ReceivedMessage) -> None:
        """Call the handler with one of `calls`, and keep how it ended."""
        request: ConsumeRequest | None = None
        try:
            if self._function is None:
                request = ConsumeRequest(self.held, [message], self.handler)
                outcome = request.call()
                is_handled = outcome is None and request.context.ack_index is None
            else:
                message.consume_start_ms = time.time_ns() // 1_000_000
                outcome = self._function(message)
                is_handled = outcome is None
        except BaseException as error:
            outcome, is_handled = error, False
        if is_handled:
            self.handled.append(message)
            return
        if request is None:
            request = ConsumeRequest(self.held, [message], self.handler)
            request.started_ms = message.consume_start_ms
        self.others.append((request, outcome))

    def take_ended(self) -> "tuple[list[ReceivedMessage], list[tuple[ConsumeRequest, Any]]]":
        """Take `handled` and `others`, on the loop; the thread may add more meanwhile."""
        handled, others = self.handled[:], self.others[:]
        del self.handled[: len(handled)], self.others[: len(others)]
        return handled, others

    def leave(self) -> Part | None:
        """Give up the calls that have not begun."""
        messages = []
        with contextlib.suppress(IndexError):
            while True:
                messages.append(self.calls.popleft())
        return Part(self.held, messages, self.handler, 1) if messages else None

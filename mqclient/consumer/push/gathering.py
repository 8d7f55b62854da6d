"""Gathers the messages of a queue until there are enough for one call of a handler."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mqclient.consumer.process_queue import ProcessQueue
from mqcommon.message import ReceivedMessage

__all__ = ["Gatherer"]

Key = tuple[ProcessQueue, str]
"""A queue, and the topic of its messages: a retry queue has several."""


class _Gathered:
    """Messages that wait for others. timer: ends the wait."""

    __slots__ = ("messages", "timer")

    def __init__(self, timer: asyncio.TimerHandle) -> None:
        self.messages: list[ReceivedMessage] = []
        self.timer = timer


class Gatherer:
    """Keeps messages of a consumer. deliver: called with a queue, a topic and enough messages."""

    def __init__(self, deliver: Callable[[ProcessQueue, str, list[ReceivedMessage]], None]) -> None:
        self._deliver = deliver
        self._waiting: dict[Key, _Gathered] = {}

    def add(
        self,
        held: ProcessQueue,
        topic: str,
        messages: list[ReceivedMessage],
        size: int,
        wait: float,
    ) -> None:
        """Deliver full calls of `size` messages; the rest waits, at most `wait` seconds."""
        key = held, topic
        before = self._waiting.pop(key, None)
        if before is not None:
            messages = before.messages + messages
        full = len(messages) - len(messages) % size
        if before is not None and full:
            before.timer.cancel()
            before = None
        if full:
            self._deliver(held, topic, messages[:full])
        if full < len(messages):
            if before is None:
                loop = asyncio.get_running_loop()
                before = _Gathered(loop.call_later(wait, self._end, key))
            before.messages = messages[full:]
            self._waiting[key] = before

    def _end(self, key: Key) -> None:
        self._deliver(*key, self._waiting.pop(key).messages)

    def forget(self, held: ProcessQueue | None = None) -> None:
        """Drop what waits of a queue; None is all."""
        self.take_back(held)

    def take_back(self, held: ProcessQueue | None) -> list[list[ReceivedMessage]]:
        """Drop what waits of a queue, and return it, one list for each topic."""
        dropped = [
            self._waiting.pop(key) for key in [*self._waiting] if held is None or key[0] is held
        ]
        for gathered in dropped:
            gathered.timer.cancel()
        return [gathered.messages for gathered in dropped]

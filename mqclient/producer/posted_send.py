"""The future of a send that no thread waits for, cheaper than the standard one.

The standard future makes a lock and a condition, though most are never waited for; and the core
settles a send whose message is stored, unless somebody watches it.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from mqclient.engine.transport import Pending
from mqclient.errors import ClosedError
from mqclient.producer.results import SendResult
from mqclient.producer.retry import Failure
from mqclient.producer.sender import Sender
from mqcommon.wire.frame import Frame

__all__ = ["OnSent", "PostedOneway", "PostedSend"]

log = logging.getLogger(__name__)
_lock = threading.RLock()  # a signal handler may look at a future
OnSent = Callable[[SendResult | None, BaseException | None], object]
"""Gets the result or the error of a send."""


class PostedSend(Pending, Future[SendResult]):
    """A send that was handed to its connection.

    The attributes of the standard future come when something needs them, such as a wait; the send
    runs from its beginning, so `cancel` returns False. On the loop, the transport gives it the
    answer as it does to a future of its own, by `set_result` and `set_exception`.
    """

    # --- the answer

    def set_result(self, answer: Any) -> None:
        """Take the broker's answer."""
        self._judge(answer)

    def set_exception(self, error: BaseException | None) -> None:
        """Take the error of the first try."""
        self._judge(error)

    def _judge(self, answer: Any) -> None:
        send = self.send
        assert send is not None
        posts, outgoing, started, timeout, _ = send
        try:
            if type(answer) is not Frame and not isinstance(answer, Exception) and not answer.code:
                outcome: SendResult | Failure = SendResult(answer, self.msg_id, self.path.shown)
            else:
                outcome = posts.sender.judge(self.path, outgoing, answer)
            if isinstance(outcome, Failure):
                trying = self._try_on(posts.sender, outgoing, started, timeout, outcome)
                task = posts.spawn(trying, "retries of a send")
                task.add_done_callback(self._tried)
            else:
                self._end(outcome, None)
        except Exception as error:
            self._end(None, error)

    async def _try_on(self, sender: Sender, *arguments: Any) -> None:
        try:
            result = await sender.try_on(*arguments)
        except Exception as error:
            self._end(None, error)
        else:
            self._end(result, None)

    def _tried(self, _task: "asyncio.Task[None]") -> None:
        if not self.is_settled:  # the producer's end has cancelled it, perhaps before it began
            self._end(None, ClosedError("the producer was closed before the message was stored"))

    def _end(self, result: SendResult | None, error: BaseException | None) -> None:
        on_done = self.send[-1] if self.send is not None else None
        self.accepted.leave(1, self.size)
        self.settle((result, error))
        # Read after `settle`: who adds a callback, or waits, from now on sees the outcome.
        if self.__dict__:
            if "_condition" in self.__dict__:
                self._settle_whole()
            self._call_back()
        if on_done is not None:
            try:
                on_done(result, error)
            except BaseException:  # else the other sends of this turn would have no outcome
                log.exception("on_done of a send failed")

    # --- the future

    def _settled(self) -> tuple[SendResult | None, BaseException | None] | None:
        outcome: tuple[SendResult | None, BaseException | None] | None = self.outcome
        if outcome is None and (reply := self.reply) is not None:
            outcome = SendResult(reply, self.msg_id, self.path.shown), None
            self.settle(outcome)
        return outcome

    def done(self) -> bool:
        """Whether the send has its outcome."""
        return self.is_settled

    def result(self, timeout: float | None = None) -> SendResult:
        """Wait for the result, as `concurrent.futures.Future.result`."""
        outcome = self._settled()
        return super().result(timeout) if outcome is None or outcome[0] is None else outcome[0]

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the exception, None if there is a result."""
        outcome = self._settled()
        return super().exception(timeout) if outcome is None else outcome[1]

    def add_done_callback(self, fn: Callable[[Future[SendResult]], object]) -> None:
        """Call `fn(future)` at the end, at once if that has come."""
        self.__dict__.setdefault("_later", []).append(fn)
        if not self.watch() or self.is_settled:
            self._call_back()

    def _call_back(self) -> None:
        """Call each callback once, whichever threads come here."""
        callbacks = self.__dict__.get("_later")
        while callbacks:
            try:
                function = callbacks.pop(0)
            except IndexError:  # another thread took the last one
                return
            try:
                function(self)
            except BaseException:
                log.exception("a callback of a send failed")

    def __getattr__(self, name: str) -> Any:
        """Make the attributes of the standard future, the first time that one is needed."""
        if name not in _STANDARD:
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        with _lock:
            if "_condition" not in self.__dict__:
                super().__init__()
                self._state = "RUNNING"
        if not self.watch() or self.is_settled:
            self._settle_whole()
        return self.__dict__[name]

    def _settle_whole(self) -> None:
        outcome = self._settled()
        assert outcome is not None
        with _lock:  # after `__getattr__` of another thread has made all of it
            if "_is_settled_whole" in self.__dict__:
                return
            self._is_settled_whole = True
        # Without the lock: `concurrent.futures.wait` holds conditions while it asks for others.
        if outcome[1] is None:
            super().set_result(outcome[0])  # type: ignore[arg-type]
        else:
            super().set_exception(outcome[1])


class PostedOneway(PostedSend):
    """A message that gets no answer, until it is written."""

    def _judge(self, answer: Any) -> None:
        if isinstance(answer, BaseException):
            log.warning("message %s was not sent: %s", self.msg_id, answer)
        self._end(None, answer)


_STANDARD = frozenset(Future().__dict__)

"""Optional additions to a producer's sends: hooks, and limits on the messages in flight.

Rules of the limits: RocketMQ `DefaultMQProducer.setBackPressureForAsyncSendNum` and
`setBackPressureForAsyncSendSize`.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from mqclient.errors import BackPressureTimeout
from mqclient.producer.results import SendResult
from mqclient.settings.producers import AfterSend, BeforeSend, SendOptions
from mqcommon.message import Message

__all__ = ["AroundSend", "around_send"]

log = logging.getLogger(__name__)
Sent = TypeVar("Sent", bound=SendResult | None)
Sendable = Message | Sequence[Message]


class InFlight:
    """Limits messages and bytes in flight, first come, first served. For one loop.

    messages_max, bytes_max: None for no limit. One send may pass a limit that it alone exceeds.
    """

    def __init__(self, messages_max: int | None, bytes_max: int | None) -> None:
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._messages = self._bytes = 0
        self._waiting: deque[tuple[asyncio.Future[None], int, int]] = deque()

    async def enter(self, count: int, size: int, timeout: float) -> None:
        """Wait for room. timeout: seconds. Raises BackPressureTimeout."""
        if not self._waiting and self._fits(count, size):
            self._take(count, size)
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        item = future, count, size
        self._waiting.append(item)
        try:
            async with asyncio.timeout(max(0.0, timeout)):
                await future
        except BaseException as error:
            if future.done() and not future.cancelled():
                self.leave(count, size)  # room came at the same moment
            else:
                self._waiting.remove(item)
                self._wake()
            if isinstance(error, TimeoutError):
                raise BackPressureTimeout(
                    f"nothing was sent: {self._messages} messages with {self._bytes} bytes are in "
                    f"flight, and no room came within {timeout:.3g} s; send slower, or raise "
                    "limits=SendLimits(max_messages=..., max_bytes=...)"
                ) from None
            raise

    def leave(self, count: int, size: int) -> None:
        """Give room back."""
        self._messages -= count
        self._bytes -= size
        self._wake()

    def _wake(self) -> None:
        while self._waiting:
            future, count, size = self._waiting[0]
            if not self._fits(count, size):
                return
            self._waiting.popleft()
            if not future.done():
                self._take(count, size)
                future.set_result(None)

    def _take(self, count: int, size: int) -> None:
        self._messages += count
        self._bytes += size

    def _fits(self, count: int, size: int) -> bool:
        if not self._messages:
            return True
        return (self._messages_max is None or self._messages + count <= self._messages_max) and (
            self._bytes_max is None or self._bytes + size <= self._bytes_max
        )


class AroundSend:
    """Calls hooks, and waits for room, around each send of a producer."""

    def __init__(self, settings: SendOptions) -> None:
        self._before = settings.before_send
        self._after = settings.after_send
        limits = settings.limits.max_messages, settings.limits.max_bytes
        self.limited = limits != (None, None)
        """Whether the messages in flight are limited."""
        self._in_flight = InFlight(*limits)

    async def admit(self, message: Sendable, timeout: float) -> None:
        """Wait for room, which `send` gives back. timeout: seconds."""
        if self.limited:
            await self._in_flight.enter(*_size(message), timeout)

    async def send(
        self,
        message: Sendable,
        timeout: float,
        work: Callable[[float], Awaitable[Sent]],
        *,
        admitted: bool = False,
    ) -> Sent:
        """Run `work(seconds left)` with hooks and limits. admitted: there is room already.

        Raises what `work` raises, and BackPressureTimeout.
        """
        started = asyncio.get_running_loop().time()
        if not admitted:
            await self.admit(message, timeout)
        try:
            self._call_before(message)
            try:
                left = timeout - (asyncio.get_running_loop().time() - started)
                result = await work(max(0.001, left))
            except Exception as error:
                self._call_after(message, None, error)
                raise
            self._call_after(message, result, None)
            return result
        finally:
            if self.limited:
                self._in_flight.leave(*_size(message))

    def _call_before(self, message: Sendable) -> None:
        if self._before is not None:
            _guarded(self._before, "before_send", message)

    def _call_after(
        self, message: Sendable, result: SendResult | None, error: Exception | None
    ) -> None:
        if self._after is not None:
            _guarded(self._after, "after_send", message, result, error)


def around_send(settings: SendOptions) -> AroundSend | None:
    """What to do around sends; None if the settings ask for nothing."""
    asked = (
        settings.before_send,
        settings.after_send,
        settings.limits.max_messages,
        settings.limits.max_bytes,
    )
    return None if asked == (None,) * len(asked) else AroundSend(settings)


def _guarded(hook: BeforeSend | AfterSend, name: str, *arguments: object) -> None:
    try:
        hook(*arguments)  # type: ignore[arg-type]
    except Exception:
        log.exception("%s failed; the send continues", name)


def _size(message: Sendable) -> tuple[int, int]:
    """Messages and bytes of bodies; a value that cannot be sent counts as one message."""
    if isinstance(message, Message):
        return 1, len(message.body)
    if isinstance(message, (list, tuple)):
        bodies = [len(item.body) for item in message if isinstance(item, Message)]
        return max(1, len(bodies)), sum(bodies)
    return 1, 0

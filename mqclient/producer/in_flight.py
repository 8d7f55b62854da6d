"""Counts the sends that have no outcome yet: limits them, and waits for them. Safe for threads.

Rules of the limits: RocketMQ `DefaultMQProducer.setBackPressureForAsyncSendNum` and
`setBackPressureForAsyncSendSize`.
"""

import asyncio
import contextlib
import queue
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence

from mqclient.errors import BackPressureTimeout
from mqclient.settings.values import SendLimits
from mqcommon._core import Accepted, SendCounts
from mqcommon.message import Message

__all__ = ["Accepted", "InFlight", "size_of"]

SIGNAL_CHECK_S = 0.5
"""Seconds between checks for a signal: a signal just before the wait does not interrupt it."""


class _Waiter:
    """A send that waits for room. notify: called once it is accepted."""

    __slots__ = ("accepted", "count", "from_thread", "notify", "size")

    def __init__(self, count: int, size: int, notify: Callable[[], object], from_thread: bool):
        self.count, self.size, self.notify = count, size, notify
        self.from_thread = from_thread
        self.accepted: Accepted | None = None


class InFlight:
    """The messages and bytes in flight of one producer, first come, first served.

    One send may pass a limit that it alone exceeds.
    """

    def __init__(self, limits: SendLimits) -> None:
        self._counts = SendCounts(
            limits.max_messages or sys.maxsize, limits.max_bytes or sys.maxsize, self._left
        )
        self.accept = self._counts.accept
        """Counts a send, until `Accepted.leave`; None if it must wait for room."""
        self._lock = threading.RLock()  # a signal handler may send; guards all fields below
        self._waiting: deque[_Waiter] = deque()
        self._flushed: set[Accepted] = set()
        """What flushes wait for."""
        self._flushes: set[Callable[[], object]] = set()
        """Called when one of these has ended."""

    @property
    def messages(self) -> int:
        """Messages in flight."""
        return self._counts.messages

    async def wait(self, count: int, size: int, timeout: float) -> Accepted:
        """Accept a send as soon as there is room. timeout: seconds. Raises BackPressureTimeout."""
        loop = asyncio.get_running_loop()
        event = asyncio.Event()
        waiter = _Waiter(count, size, _waker(loop, event.set), from_thread=False)
        self._enqueue(waiter)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0.0, timeout)):
                    await event.wait()
        except BaseException:
            self._give_up(waiter)
            raise
        return self._outcome(waiter, timeout)

    def block(self, count: int, size: int, timeout: float) -> Accepted:
        """Do as `wait`, in a thread of the caller's."""
        event: queue.SimpleQueue[None] = queue.SimpleQueue()
        waiter = _Waiter(count, size, lambda: event.put(None), from_thread=True)
        deadline = time.monotonic() + timeout
        self._enqueue(waiter)
        try:
            while waiter.accepted is None and (left := deadline - time.monotonic()) > 0:
                with contextlib.suppress(queue.Empty):
                    event.get(timeout=min(left, SIGNAL_CHECK_S))
        except BaseException:
            self._give_up(waiter)
            raise
        return self._outcome(waiter, timeout)

    def _left(self, accepted: Accepted) -> None:
        with self._lock:
            self._admit()
            if accepted in self._flushed and not accepted.messages:
                self._flushed.discard(accepted)
                for notify in tuple(self._flushes):
                    notify()

    async def flush(self, timeout: float) -> int:
        """Wait until every send that was accepted before this call has its outcome.

        timeout: seconds. Returns how many messages have none, which is 0 unless the time is over.
        """
        event = asyncio.Event()
        notify = _waker(asyncio.get_running_loop(), event.set)
        with self._lock:
            accepted = self._counts.begin_flush()
            if accepted.messages:
                self._flushed.add(accepted)
            awaited = tuple(self._flushed)
            self._flushes.add(notify)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    while any(accepted.messages for accepted in awaited):
                        await event.wait()
                        event.clear()
        finally:
            with self._lock:
                self._flushes.discard(notify)
        return sum(accepted.messages for accepted in awaited)

    # --- under the lock

    def _admit(self, quarters_for_threads: int = 3) -> None:
        """Accept the sends for which there is room.

        A waiting thread is woken when a quarter of the limits is free, because a wake-up for each
        send would cost more than the send.
        """
        while self._waiting:
            waiter = self._waiting[0]
            quarters = quarters_for_threads if waiter.from_thread else 4
            waiter.accepted = self._counts.accept_waiting(waiter.count, waiter.size, quarters)
            if waiter.accepted is None:
                return
            self._waiting.popleft()
            waiter.notify()
        self._counts.wait(False)

    # --- waiters

    def _enqueue(self, waiter: _Waiter) -> None:
        with self._lock:
            self._waiting.append(waiter)
            self._counts.wait(True)
            self._admit(4)  # a send may have ended before this one joined the queue

    def _outcome(self, waiter: _Waiter, timeout: float) -> Accepted:
        """The end of a wait of `timeout` seconds. Raises BackPressureTimeout if no room came."""
        with self._lock:
            if waiter.accepted is not None:
                return waiter.accepted
            self._waiting.remove(waiter)
            self._admit()
            messages, size = self._counts.messages, self._counts.size
        raise BackPressureTimeout(
            f"nothing was sent: {messages} messages with {size} bytes are in flight, and no room "
            f"came within {timeout:.3g} s; send slower, or raise "
            "limits=SendLimits(max_messages=..., max_bytes=...)"
        )

    def _give_up(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter.accepted is None:
                self._waiting.remove(waiter)
                self._admit()
        if waiter.accepted is not None:
            waiter.accepted.leave(waiter.count, waiter.size)


def _waker(loop: asyncio.AbstractEventLoop, wake: Callable[[], object]) -> Callable[[], object]:
    """Calls a function on the loop, at once if the caller runs there."""
    here = threading.get_ident()

    def notify() -> None:
        if threading.get_ident() == here:
            wake()
        elif not loop.is_closed():
            loop.call_soon_threadsafe(wake)

    return notify


def size_of(message: Message | Sequence[Message]) -> tuple[int, int]:
    """Messages and bytes of bodies; a value that cannot be sent counts as one message."""
    if isinstance(message, Message):
        return 1, len(message.body)
    if isinstance(message, (list, tuple)):
        bodies = [len(item.body) for item in message if isinstance(item, Message)]
        return max(1, len(bodies)), sum(bodies)
    return 1, 0

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
from mqcommon.message import Message

__all__ = ["Generation", "InFlight", "size_of"]

SIGNAL_CHECK_S = 0.5
"""Seconds between checks for a signal: a signal just before the wait does not interrupt it."""


class Generation:
    """The sends that were accepted between two flushes. messages: those without an outcome."""

    __slots__ = ("messages",)

    def __init__(self) -> None:
        self.messages = 0


class _Waiter:
    """A send that waits for room. notify: called once it has its generation."""

    __slots__ = ("count", "from_thread", "generation", "notify", "size")

    def __init__(self, count: int, size: int, notify: Callable[[], object], from_thread: bool):
        self.count, self.size, self.notify = count, size, notify
        self.from_thread = from_thread
        self.generation: Generation | None = None


class InFlight:
    """The messages and bytes in flight of one producer, first come, first served.

    One send may pass a limit that it alone exceeds.
    """

    def __init__(self, limits: SendLimits) -> None:
        self._messages_max = limits.max_messages or sys.maxsize
        self._bytes_max = limits.max_bytes or sys.maxsize
        self._lock = threading.RLock()  # a signal handler may send; guards all fields below
        self._messages = self._bytes = 0
        self._waiting: deque[_Waiter] = deque()
        self._current = Generation()
        self._flushed: set[Generation] = set()
        """Earlier generations that still have messages."""
        self._flushes: set[Callable[[], object]] = set()
        """Called when one of these generations has ended."""

    def accept(self, count: int, size: int) -> Generation | None:
        """Count a send of messages and bytes, which `leave` ends; None if it must wait for room."""
        with self._lock:
            if self._waiting or not self._fits(count, size):
                return None
            return self._take(count, size)

    async def wait(self, count: int, size: int, timeout: float) -> Generation:
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

    def block(self, count: int, size: int, timeout: float) -> Generation:
        """Do as `wait`, in a thread of the caller's."""
        event: queue.SimpleQueue[None] = queue.SimpleQueue()
        waiter = _Waiter(count, size, lambda: event.put(None), from_thread=True)
        deadline = time.monotonic() + timeout
        self._enqueue(waiter)
        try:
            while waiter.generation is None and (left := deadline - time.monotonic()) > 0:
                with contextlib.suppress(queue.Empty):
                    event.get(timeout=min(left, SIGNAL_CHECK_S))
        except BaseException:
            self._give_up(waiter)
            raise
        return self._outcome(waiter, timeout)

    def leave(self, generation: Generation, count: int, size: int) -> None:
        """End a send that was accepted."""
        with self._lock:
            self._messages -= count
            self._bytes -= size
            generation.messages -= count
            if self._waiting:
                self._admit()
            if generation in self._flushed and not generation.messages:
                self._flushed.discard(generation)
                for notify in tuple(self._flushes):
                    notify()

    async def flush(self, timeout: float) -> int:
        """Wait until every send that was accepted before this call has its outcome.

        timeout: seconds. Returns how many messages have none, which is 0 unless the time is over.
        """
        event = asyncio.Event()
        notify = _waker(asyncio.get_running_loop(), event.set)
        with self._lock:
            if self._current.messages:
                self._flushed.add(self._current)
                self._current = Generation()
            awaited = tuple(self._flushed)
            self._flushes.add(notify)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout):
                    while any(generation.messages for generation in awaited):
                        await event.wait()
                        event.clear()
        finally:
            with self._lock:
                self._flushes.discard(notify)
        return sum(generation.messages for generation in awaited)

    # --- under the lock

    def _fits(self, count: int, size: int, quarters: int = 4) -> bool:
        """Whether there is room in so many quarters of the limits."""
        if not self._messages:
            return True
        return (
            self._messages + count <= self._messages_max * quarters // 4
            and self._bytes + size <= self._bytes_max * quarters // 4
        )

    def _take(self, count: int, size: int) -> Generation:
        self._messages += count
        self._bytes += size
        generation = self._current
        generation.messages += count
        return generation

    def _admit(self) -> None:
        """Accept the sends for which there is room.

        A waiting thread is woken when a quarter of the limits is free, because a wake-up for each
        send would cost more than the send.
        """
        while self._waiting:
            waiter = self._waiting[0]
            if not self._fits(waiter.count, waiter.size, 3 if waiter.from_thread else 4):
                return
            self._waiting.popleft()
            waiter.generation = self._take(waiter.count, waiter.size)
            waiter.notify()

    # --- waiters

    def _enqueue(self, waiter: _Waiter) -> None:
        with self._lock:
            self._waiting.append(waiter)
            if not self._messages:  # the last send ended before this one joined the queue
                self._admit()

    def _outcome(self, waiter: _Waiter, timeout: float) -> Generation:
        """The end of a wait of `timeout` seconds. Raises BackPressureTimeout if no room came."""
        with self._lock:
            if waiter.generation is not None:
                return waiter.generation
            self._waiting.remove(waiter)
            self._admit()
            messages, size = self._messages, self._bytes
        raise BackPressureTimeout(
            f"nothing was sent: {messages} messages with {size} bytes are in flight, and no room "
            f"came within {timeout:.3g} s; send slower, or raise "
            "limits=SendLimits(max_messages=..., max_bytes=...)"
        )

    def _give_up(self, waiter: _Waiter) -> None:
        with self._lock:
            if waiter.generation is None:
                self._waiting.remove(waiter)
                self._admit()
        if waiter.generation is not None:
            self.leave(waiter.generation, waiter.count, waiter.size)


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

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

__all__ = ["Accepted", "InFlight", "size_of"]

SIGNAL_CHECK_S = 0.5
"""Seconds between checks for a signal: a signal just before the wait does not interrupt it."""


class Accepted:
    """The sends that were accepted between two flushes, on the loop or elsewhere.

    messages: those without an outcome. is_shared: any thread counts here, under the lock; else only
    the loop's thread does. is_flushed: a flush waits for them.
    """

    __slots__ = ("_all", "is_flushed", "is_shared", "messages")

    def __init__(self, all_sends: "InFlight", is_shared: bool) -> None:
        self._all = all_sends
        self.messages = 0
        self.is_shared = is_shared
        self.is_flushed = False

    def leave(self, count: int, size: int) -> None:
        """End sends that were accepted."""
        self._all.leave(self, count, size)


class _Waiter:
    """A send that waits for room. notify: called once it is accepted."""

    __slots__ = ("accepted", "count", "from_thread", "notify", "size")

    def __init__(self, count: int, size: int, notify: Callable[[], object], from_thread: bool):
        self.count, self.size, self.notify = count, size, notify
        self.from_thread = from_thread
        self.accepted: Accepted | None = None


class InFlight:
    """The messages and bytes in flight of one producer, first come, first served.

    One send may pass a limit that it alone exceeds. The sends of the producer's loop have counters
    of their own, because a lock would cost as much as encoding the message.
    """

    def __init__(self, limits: SendLimits) -> None:
        self._messages_max = limits.max_messages or sys.maxsize
        self._bytes_max = limits.max_bytes or sys.maxsize
        self._own_messages = self._own_bytes = 0  # of the loop's thread
        self._own = Accepted(self, is_shared=False)
        self._lock = threading.RLock()  # a signal handler may send; guards all fields below
        self._shared_messages = self._shared_bytes = 0
        self._shared = Accepted(self, is_shared=True)
        self._waiting: deque[_Waiter] = deque()
        self._flushed: set[Accepted] = set()
        """What flushes wait for."""
        self._flushes: set[Callable[[], object]] = set()
        """Called when one of these has ended."""

    @property
    def messages(self) -> int:
        """Messages in flight."""
        return self._own_messages + self._shared_messages

    @property
    def size(self) -> int:
        """Bytes of bodies in flight."""
        return self._own_bytes + self._shared_bytes

    def accept(self, count: int, size: int) -> Accepted | None:
        """On the loop: count a send, which `leave` ends; None if it must wait for room."""
        own_messages, own_bytes = self._own_messages + count, self._own_bytes + size
        if self._waiting or (
            (
                own_messages + self._shared_messages > self._messages_max
                or own_bytes + self._shared_bytes > self._bytes_max
            )
            and self.messages
        ):
            return None
        self._own_messages, self._own_bytes = own_messages, own_bytes
        accepted = self._own
        accepted.messages += count
        return accepted

    def accept_anywhere(self, count: int, size: int) -> Accepted | None:
        """Do as `accept`, in any thread."""
        with self._lock:
            messages, size_after = self._shared_messages + count, self._shared_bytes + size
            if self._waiting or (
                (
                    messages + self._own_messages > self._messages_max
                    or size_after + self._own_bytes > self._bytes_max
                )
                and self.messages
            ):
                return None
            self._shared_messages, self._shared_bytes = messages, size_after
            accepted = self._shared
            accepted.messages += count
            return accepted

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

    def leave(self, accepted: Accepted, count: int, size: int) -> None:
        """End a send that was accepted."""
        if accepted.is_shared:
            with self._lock:
                self._shared_messages -= count
                self._shared_bytes -= size
                accepted.messages -= count
        else:
            self._own_messages -= count
            self._own_bytes -= size
            accepted.messages -= count
        if self._waiting or accepted.is_flushed:
            self._left(accepted)

    def _left(self, accepted: Accepted) -> None:
        with self._lock:
            self._admit()
            if accepted.is_flushed and not accepted.messages:
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
            if self._own.messages:
                self._own.is_flushed = True
                self._flushed.add(self._own)
                self._own = Accepted(self, is_shared=False)
            if self._shared.messages:
                self._shared.is_flushed = True
                self._flushed.add(self._shared)
                self._shared = Accepted(self, is_shared=True)
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

    def _fits(self, count: int, size: int, quarters: int = 4) -> bool:
        """Whether the send fits into the limits, of which only some quarters may be used."""
        if not self.messages:
            return True
        return (
            self.messages + count <= self._messages_max * quarters // 4
            and self.size + size <= self._bytes_max * quarters // 4
        )

    def _share(self, count: int, size: int) -> Accepted:
        self._shared_messages += count
        self._shared_bytes += size
        self._shared.messages += count
        return self._shared

    def _admit(self, quarters_for_threads: int = 3) -> None:
        """Accept the sends for which there is room.

        A waiting thread is woken when a quarter of the limits is free, because a wake-up for each
        send would cost more than the send.
        """
        while self._waiting:
            waiter = self._waiting[0]
            quarters = quarters_for_threads if waiter.from_thread else 4
            if not self._fits(waiter.count, waiter.size, quarters):
                return
            self._waiting.popleft()
            waiter.accepted = self._share(waiter.count, waiter.size)
            waiter.notify()

    # --- waiters

    def _enqueue(self, waiter: _Waiter) -> None:
        with self._lock:
            self._waiting.append(waiter)
            self._admit(4)  # a send may have ended before this one joined the queue

    def _outcome(self, waiter: _Waiter, timeout: float) -> Accepted:
        """The end of a wait of `timeout` seconds. Raises BackPressureTimeout if no room came."""
        with self._lock:
            if waiter.accepted is not None:
                return waiter.accepted
            self._waiting.remove(waiter)
            self._admit()
            messages, size = self.messages, self.size
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
            self.leave(waiter.accepted, waiter.count, waiter.size)


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

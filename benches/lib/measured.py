"""What the loads of clients measure and how they are paced, for ours and for those of peers.

It imports no client, so that no client's process carries another one's modules.
"""

import asyncio
import resource
import statistics
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from typing import Any

BODY = bytes(1024)
WINDOW = 10_000
"""Sends of one thread that wait for their answers, at most."""
THREADS = 64
IN_FLIGHT = 256
LIST = 500
"""Messages that one call reads at most, in the cases of lists."""
DEADLINE_SECONDS = 120.0
PER_SECOND = 1_000
"""Messages a second of the latency cases."""
SETTLE_SECONDS = 0.5
ROUND_SECONDS = 3.0
"""A peer's round ends after this time if it has not ended by its number of messages."""
_LOT = 64

Figures = dict[str, float]
Load = Callable[[str, int], Figures]
"""A case: takes the server's address and the number of messages."""


class Measured:
    """Time and costs of this process between `begin` and `end`."""

    def begin(self) -> None:
        """Start to count; the first call counts."""
        self._used = resource.getrusage(resource.RUSAGE_SELF)
        self._at = time.perf_counter()

    def end(self, messages: int) -> Figures:
        """The figures since `begin`."""
        seconds = time.perf_counter() - self._at
        used, before = resource.getrusage(resource.RUSAGE_SELF), self._used
        user, system = used.ru_utime - before.ru_utime, used.ru_stime - before.ru_stime
        switches = used.ru_nvcsw - before.ru_nvcsw + used.ru_nivcsw - before.ru_nivcsw
        return {
            "per_s": messages / seconds,
            "cpu_us": (user + system) / messages * 1e6,
            "kernel_us": system / messages * 1e6,
            "switches": switches / messages,
        }


class Backlog:
    """Counts the handled messages of a backlog, from the first on.

    seconds: the counting ends after this time, checked every 64 messages; None for no limit.
    """

    def __init__(self, count: int, seconds: float | None = None) -> None:
        self.left = self.count = count
        self.begun = False
        self.measured = Measured()
        self.done = threading.Event()
        self._seconds = seconds

    def take(self, messages: int) -> None:
        """Count messages; not for several threads at once."""
        if not self.begun:
            self.begun = True
            self.measured.begin()
            self._until = None if self._seconds is None else time.monotonic() + self._seconds
        self.left -= messages
        late = self._until is not None and self.left % _LOT == 0 and time.monotonic() > self._until
        if (self.left <= 0 or late) and not self.done.is_set():
            self.figures = self.measured.end(self.count - max(0, self.left))
            self.done.set()


def lots(count: int, size: int = _LOT, seconds: float = ROUND_SECONDS) -> Iterator[range]:
    """Ranges of `count` numbers in all, or fewer if `seconds` are over before."""
    until = time.perf_counter() + seconds
    for start in range(0, count, size):
        if time.perf_counter() > until:
            return
        yield range(start, min(start + size, count))


def in_lots(send: Callable[[], object], count: int) -> Figures:
    """Call `send` once a message, up to `count` messages or ROUND_SECONDS."""
    send()
    measured, sent = Measured(), 0
    measured.begin()
    for lot in lots(count):
        for _ in lot:
            send()
        sent += len(lot)
    return measured.end(sent)


def on_loop(case: Callable[[str, int], Coroutine[Any, Any, Figures]]) -> Load:
    """The load that runs an asynchronous case on a loop of its own."""
    return lambda address, count: asyncio.run(case(address, count))


async def awaited(
    send: Callable[[], Awaitable[object]], count: int, in_flight: int = IN_FLIGHT
) -> Figures:
    """Await `send` once a message, in `in_flight` tasks at the same time."""

    async def work() -> int:
        sent = 0
        for lot in lots(count // in_flight, 8):
            for _ in lot:
                await send()
            sent += len(lot)
        return sent

    await send()
    measured = Measured()
    measured.begin()
    return measured.end(sum(await asyncio.gather(*(work() for _ in range(in_flight)))))


def threaded(work: Callable[[int], int], count: int, threads: int = THREADS) -> Figures:
    """Run `work` in threads; it takes its share of messages and returns how many it sent."""
    sent = [0] * threads

    def run(number: int) -> None:
        sent[number] = work(count // threads)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    measured = Measured()
    measured.begin()
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    return measured.end(sum(sent))


class Spans:
    """Microseconds from the stamp in each message's body to its handler."""

    def __init__(self) -> None:
        self.us: list[float] = []

    def add(self, body: bytes) -> None:
        """Note a message that the handler has now."""
        now = time.perf_counter_ns()
        self.us.append((now - int.from_bytes(body[:8], "big")) / 1000)

    def measure(self, send: Callable[[bytes], object], count: int) -> Figures:
        """Send `count` bodies at PER_SECOND, and wait until each has arrived."""
        send(_stamped())
        self._await_spans(1)
        time.sleep(SETTLE_SECONDS)
        self.us.clear()
        measured = Measured()
        measured.begin()
        start = time.perf_counter()
        for number in range(count):
            due = start + number / PER_SECOND
            while (left := due - time.perf_counter()) > 0:
                time.sleep(left)
            send(_stamped())
        self._await_spans(count)
        return self._figures(measured.end(count))

    async def measure_async(
        self, send: Callable[[bytes], Awaitable[object]], count: int
    ) -> Figures:
        """The same on a running loop, with awaited sends."""
        await send(_stamped())
        await asyncio.sleep(SETTLE_SECONDS)
        self.us.clear()
        measured = Measured()
        measured.begin()
        start = time.perf_counter()
        for number in range(count):
            await asyncio.sleep(max(0.0, start + number / PER_SECOND - time.perf_counter()))
            await send(_stamped())
        end = time.monotonic() + _ARRIVAL_SECONDS
        while len(self.us) < count and time.monotonic() < end:
            await asyncio.sleep(0.01)
        return self._figures(measured.end(count))

    def _await_spans(self, count: int) -> None:
        end = time.monotonic() + _ARRIVAL_SECONDS
        while len(self.us) < count and time.monotonic() < end:
            time.sleep(0.01)

    def _figures(self, used: Figures) -> Figures:
        spans = sorted(self.us[len(self.us) // 10 :])
        at = {name: spans[int((len(spans) - 1) * share)] for name, share in _SHARES.items()}
        return {"p50_us": statistics.median(spans), **at} | {
            name: used[name] for name in ("cpu_us", "switches")
        }


_ARRIVAL_SECONDS = 5.0
_SHARES = {"p99_us": 0.99, "p999_us": 0.999}


def _stamped() -> bytes:
    return time.perf_counter_ns().to_bytes(8, "big") + bytes(len(BODY) - 8)

"""The loads that most programs are written as, for our client: one case a process.

`python benches/lib/client_load.py CASE NAMESRV COUNT` prints a JSON line with messages a second and
the CPU of the process a message. It imports the client alone, so that PYTHONPATH may name another
copy of the project to compare with.
"""

import asyncio
import concurrent.futures
import json
import resource
import statistics
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from mqclient import LitePullConsumer, Message, Producer, PushConsumer, aio

TOPIC = "BenchCases"
BACKLOG_TOPIC = "BenchBacklog"
BODY = bytes(1024)
WINDOW = 10_000
"""Sends of one thread that wait for their answers, at most."""
THREADS = 64
DEADLINE_SECONDS = 120.0
PER_SECOND = 1_000
"""Messages a second of the latency cases."""

Figures = dict[str, float]


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


# --- sends


def futures_with_limits(namesrv: str, count: int) -> Figures:
    """Blocking `send_async`, bounded by the client's limits; every future is looked at."""
    from mqclient import SendLimits

    with Producer(namesrv, limits=SendLimits(max_messages=WINDOW)) as producer:
        return _futures(producer, count, lambda: None, lambda future: None)


def futures_with_semaphore(namesrv: str, count: int) -> Figures:
    """The same, bounded by a semaphore of the program's own."""
    room = threading.Semaphore(WINDOW)

    def leave(_future: object) -> None:
        room.release()

    with Producer(namesrv) as producer:
        return _futures(
            producer, count, room.acquire, lambda future: future.add_done_callback(leave)
        )


def futures_in_lists(namesrv: str, count: int) -> Figures:
    """The same without a limit for each: the program waits for 10,000 futures at a time."""
    with Producer(namesrv) as producer:
        producer.send(Message(TOPIC, BODY))
        measured = Measured()
        measured.begin()
        for _ in range(count // WINDOW):
            futures = [producer.send_async(Message(TOPIC, BODY)) for _ in range(WINDOW)]
            for future in futures:
                future.result()
        return measured.end(count // WINDOW * WINDOW)


def _futures(
    producer: Producer, count: int, enter: Callable[[], object], sent: Callable[[Any], object]
) -> Figures:
    producer.send(Message(TOPIC, BODY))
    measured = Measured()
    measured.begin()
    last: list[concurrent.futures.Future[Any]] = []
    for number in range(count):
        enter()
        future = producer.send_async(Message(TOPIC, BODY))
        sent(future)
        if number >= count - WINDOW:
            last.append(future)
    for future in last:
        future.result(DEADLINE_SECONDS)
    return measured.end(count)


def callbacks(namesrv: str, count: int) -> Figures:
    """Blocking `send_async` with a callback for each, bounded by the client's limits."""
    from mqclient import SendLimits

    done = threading.Event()
    seen = 0

    def on_done(result: object, error: Exception | None) -> None:
        nonlocal seen
        assert error is None
        seen += 1
        if seen == count:
            done.set()

    with Producer(namesrv, limits=SendLimits(max_messages=WINDOW)) as producer:
        producer.send(Message(TOPIC, BODY))
        measured = Measured()
        measured.begin()
        for _ in range(count):
            producer.send_async(Message(TOPIC, BODY), on_done=on_done)
        assert done.wait(DEADLINE_SECONDS)
        return measured.end(count)


def oneway(namesrv: str, count: int) -> Figures:
    """Blocking `send_oneway`."""
    with Producer(namesrv) as producer:
        producer.send(Message(TOPIC, BODY))
        measured = Measured()
        measured.begin()
        for _ in range(count):
            producer.send_oneway(Message(TOPIC, BODY))
        producer.send(Message(TOPIC, BODY))
        return measured.end(count)


def in_threads(namesrv: str, count: int) -> Figures:
    """Blocking `send` in 64 threads."""
    each = count // THREADS

    def work() -> None:
        for _ in range(each):
            producer.send(Message(TOPIC, BODY))

    with Producer(namesrv) as producer:
        producer.send(Message(TOPIC, BODY))
        running = [threading.Thread(target=work) for _ in range(THREADS)]
        measured = Measured()
        measured.begin()
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return measured.end(each * THREADS)


def _awaited(in_flight: int, linger: float | None) -> Callable[[str, int], Figures]:
    async def run(namesrv: str, count: int) -> Figures:
        from mqclient import Linger

        async def work() -> None:
            for _ in range(count // in_flight):
                await producer.send(Message(TOPIC, BODY))

        wait = None if linger is None else Linger(linger)
        async with aio.Producer(namesrv, linger=wait) as producer:
            await producer.send(Message(TOPIC, BODY))
            measured = Measured()
            measured.begin()
            await asyncio.gather(*(work() for _ in range(in_flight)))
            return measured.end(count // in_flight * in_flight)

    return lambda namesrv, count: asyncio.run(run(namesrv, count))


# --- reads of a backlog


class _Backlog:
    """Counts the handled messages of a backlog, from the first on."""

    def __init__(self, count: int) -> None:
        self.left = self.count = count
        self.begun = False
        self.measured = Measured()
        self.done = threading.Event()

    def take(self, messages: int) -> None:
        """Count messages; not for several threads at once."""
        if not self.begun:
            self.begun = True
            self.measured.begin()
        self.left -= messages
        if self.left <= 0 and not self.done.is_set():
            self.figures = self.measured.end(self.count - max(0, self.left))
            self.done.set()


def _group() -> str:
    return f"bench_cases_{time.monotonic_ns()}"


def _pushed(
    namesrv: str,
    count: int,
    make: Callable[[_Backlog], Callable[..., Any]],
    *,
    one: bool = False,
    **options: Any,
) -> Figures:
    backlog = _Backlog(count)
    consumer = PushConsumer(_group(), namesrv, consume_from="earliest", **options)
    handler = make(backlog)
    if one:
        consumer.on_message(BACKLOG_TOPIC)(handler)
    else:
        consumer.subscribe(BACKLOG_TOPIC, "*", handler)
    with consumer:
        assert backlog.done.wait(DEADLINE_SECONDS)
    return backlog.figures


def push_plain(namesrv: str, count: int) -> Figures:
    """Push consumer with a plain function of one message, without a lock: the default way."""

    def make(backlog: _Backlog) -> Callable[..., Any]:
        # Without a lock nothing can be counted exactly in many threads: the position in a list can.
        seen: list[int] = []
        add = seen.append

        def handle(message: Any) -> None:
            if not seen:
                backlog.take(0)
            add(len(message.body))
            if len(seen) >= count:
                backlog.take(count)

        return handle

    return _pushed(namesrv, count, make, one=True)


def _locked(**options: Any) -> Callable[[str, int], Figures]:
    def run(namesrv: str, count: int) -> Figures:
        def make(backlog: _Backlog) -> Callable[..., Any]:
            lock = threading.Lock()
            read = 0

            def handle(message: Any) -> None:
                nonlocal read
                size = len(message.body)
                with lock:
                    read += size
                    backlog.take(1)

            return handle

        return _pushed(namesrv, count, make, one=True, **options)

    return run


def push_async(namesrv: str, count: int) -> Figures:
    """aio push consumer with an `async def` of one message."""

    async def run() -> Figures:
        backlog = _Backlog(count)
        done = asyncio.Event()
        consumer = aio.PushConsumer(_group(), namesrv, consume_from="earliest")

        @consumer.on_message(BACKLOG_TOPIC)
        async def handle(message: Any) -> None:
            len(message.body)
            backlog.take(1)
            if backlog.left <= 0:
                done.set()

        async with consumer:
            await asyncio.wait_for(done.wait(), DEADLINE_SECONDS)
        return backlog.figures

    return asyncio.run(run())


def push_lists(namesrv: str, count: int) -> Figures:
    """Push consumer whose plain function takes lists of up to 500."""

    def make(backlog: _Backlog) -> Callable[..., Any]:
        lock = threading.Lock()

        def handle(messages: list[Any], _context: object) -> None:
            for message in messages:
                len(message.body)
            with lock:
                backlog.take(len(messages))

        return handle

    return _pushed(namesrv, count, make, batch_size=500)


def push_lists_async(namesrv: str, count: int) -> Figures:
    """aio push consumer whose `async def` takes lists of up to 500."""

    async def run() -> Figures:
        backlog = _Backlog(count)
        done = asyncio.Event()
        consumer = aio.PushConsumer(_group(), namesrv, consume_from="earliest", batch_size=500)

        async def handle(messages: list[Any], _context: object) -> None:
            for message in messages:
                len(message.body)
            backlog.take(len(messages))
            if backlog.left <= 0:
                done.set()

        consumer.subscribe(BACKLOG_TOPIC, "*", handle)
        async with consumer:
            await asyncio.wait_for(done.wait(), DEADLINE_SECONDS)
        return backlog.figures

    return asyncio.run(run())


def lite_lists(namesrv: str, count: int) -> Figures:
    """Lite pull consumer, lists by `poll`."""
    backlog = _Backlog(count)
    with LitePullConsumer(_group(), namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(BACKLOG_TOPIC)
        while not backlog.done.is_set():
            messages = consumer.poll(500)
            for message in messages:
                len(message.body)
            backlog.take(len(messages))
    return backlog.figures


# --- latency


def _latency(spans_us: list[float]) -> Figures:
    spans = sorted(spans_us[len(spans_us) // 10 :])
    at = lambda share: spans[min(len(spans) - 1, int(len(spans) * share))]  # noqa: E731
    return {
        "p50_us": statistics.median(spans),
        "p99_us": at(0.99),
        "p999_us": at(0.999),
    }


def _paced(send: Callable[[Message], object], count: int) -> None:
    """Send 1,000 messages a second, each with its time."""
    start = time.perf_counter()
    for number in range(count):
        due = start + number / PER_SECOND
        while (left := due - time.perf_counter()) > 0:
            time.sleep(left)
        send(Message("BenchLatency", time.perf_counter_ns().to_bytes(8, "big") + bytes(1016)))


def _with_consumer(
    namesrv: str, count: int, subscribe: Callable[[PushConsumer, list[float]], None]
) -> Figures:
    spans: list[float] = []
    with Producer(namesrv) as producer:
        producer.send(Message("BenchLatency", BODY))
        consumer = PushConsumer(_group(), namesrv, consume_from="latest")
        subscribe(consumer, spans)
        with consumer:
            consumer.wait_assigned(10)
            producer.send(Message("BenchLatency", time.perf_counter_ns().to_bytes(8, "big")))
            time.sleep(0.5)
            spans.clear()
            measured = Measured()
            measured.begin()
            _paced(producer.send, count)
            end = time.monotonic() + 5
            while len(spans) < count and time.monotonic() < end:
                time.sleep(0.01)
            used = measured.end(count)
    return _latency(spans) | {name: used[name] for name in ("cpu_us", "switches")}


def latency_plain(namesrv: str, count: int) -> Figures:
    """From `send` to a plain function of a push consumer, 1,000 a second in one process."""

    def subscribe(consumer: PushConsumer, spans: list[float]) -> None:
        def handle(message: Any) -> None:
            now = time.perf_counter_ns()
            spans.append((now - int.from_bytes(message.body[:8], "big")) / 1000)

        consumer.on_message("BenchLatency")(handle)

    return _with_consumer(namesrv, count, subscribe)


def latency_async(namesrv: str, count: int) -> Figures:
    """The same with asyncio: awaited sends and an `async def`, on one loop."""

    async def run() -> Figures:
        spans: list[float] = []
        async with aio.Producer(namesrv) as producer:
            await producer.send(Message("BenchLatency", BODY))
            consumer = aio.PushConsumer(_group(), namesrv, consume_from="latest")

            @consumer.on_message("BenchLatency")
            async def handle(message: Any) -> None:
                now = time.perf_counter_ns()
                spans.append((now - int.from_bytes(message.body[:8], "big")) / 1000)

            async with consumer:
                await consumer.wait_assigned(10)
                await producer.send(Message("BenchLatency", bytes(8)))
                await asyncio.sleep(0.5)
                spans.clear()
                measured = Measured()
                measured.begin()
                start = time.perf_counter()
                for number in range(count):
                    left = start + number / PER_SECOND - time.perf_counter()
                    await asyncio.sleep(max(0.0, left))
                    stamp = time.perf_counter_ns().to_bytes(8, "big")
                    await producer.send(Message("BenchLatency", stamp + bytes(1016)))
                await asyncio.sleep(0.2)
                used = measured.end(count)
        return _latency(spans) | {name: used[name] for name in ("cpu_us", "switches")}

    return asyncio.run(run())


CASES: dict[str, Callable[[str, int], Figures]] = {
    "futures_with_limits": futures_with_limits,
    "futures_with_semaphore": futures_with_semaphore,
    "futures_in_lists": futures_in_lists,
    "callbacks": callbacks,
    "oneway": oneway,
    "in_threads": in_threads,
    "awaited_256": _awaited(256, None),
    "awaited_4096": _awaited(4096, None),
    "linger_256": _awaited(256, 0.005),
    "linger_4096": _awaited(4096, 0.005),
    "push_plain": push_plain,
    "push_locked": _locked(),
    "push_locked_4": _locked(threads=4),
    "push_async": push_async,
    "push_lists": push_lists,
    "push_lists_async": push_lists_async,
    "lite_lists": lite_lists,
    "latency_plain": latency_plain,
    "latency_async": latency_async,
}


def main() -> None:
    """Run one case and print its figures."""
    case, namesrv, count = sys.argv[1:4]
    print(json.dumps(CASES[case](namesrv, int(count))))


if __name__ == "__main__":
    main()

"""The loads that most programs are written as, for our client: one case a process.

`benches.lib.one_load` runs a case. This module imports the client alone, so that it can measure
another copy of the project.
"""

import asyncio
import concurrent.futures
import threading
import time
from collections.abc import Callable
from typing import Any

from benches.lib.measured import (
    BODY,
    DEADLINE_SECONDS,
    IN_FLIGHT,
    LIST,
    WINDOW,
    Backlog,
    Figures,
    Load,
    Measured,
    Spans,
    in_lots,
    threaded,
)
from mqclient import LitePullConsumer, Message, Producer, PushConsumer, aio

TOPIC = "BenchCases"
BACKLOG_TOPIC = "BenchBacklog"
LATENCY_TOPIC = "BenchLatency"
SENT_TOPICS = (TOPIC, LATENCY_TOPIC)
"""Topics that are registered before a case begins, so that no case measures how a topic is made."""


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


def send_one(namesrv: str, count: int) -> Figures:
    """Blocking `send`, one at a time."""
    with Producer(namesrv) as producer:
        return in_lots(lambda: producer.send(Message(TOPIC, BODY)), count)


def in_threads(namesrv: str, count: int) -> Figures:
    """Blocking `send` in 64 threads."""

    def work(each: int) -> int:
        for _ in range(each):
            producer.send(Message(TOPIC, BODY))
        return each

    with Producer(namesrv) as producer:
        producer.send(Message(TOPIC, BODY))
        return threaded(work, count)


def _awaited(in_flight: int, linger: float | None) -> Load:
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


def _group() -> str:
    return f"bench_cases_{time.monotonic_ns()}"


def _pushed(
    namesrv: str,
    count: int,
    make: Callable[[Backlog], Callable[..., Any]],
    *,
    one: bool = False,
    **options: Any,
) -> Figures:
    backlog = Backlog(count)
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

    def make(backlog: Backlog) -> Callable[..., Any]:
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


def _locked(**options: Any) -> Load:
    def run(namesrv: str, count: int) -> Figures:
        def make(backlog: Backlog) -> Callable[..., Any]:
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
        backlog = Backlog(count)
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

    def make(backlog: Backlog) -> Callable[..., Any]:
        lock = threading.Lock()

        def handle(messages: list[Any], _context: object) -> None:
            for message in messages:
                len(message.body)
            with lock:
                backlog.take(len(messages))

        return handle

    return _pushed(namesrv, count, make, batch_size=LIST)


def push_lists_async(namesrv: str, count: int) -> Figures:
    """aio push consumer whose `async def` takes lists of up to 500."""

    async def run() -> Figures:
        backlog = Backlog(count)
        done = asyncio.Event()
        consumer = aio.PushConsumer(_group(), namesrv, consume_from="earliest", batch_size=LIST)

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
    backlog = Backlog(count)
    with LitePullConsumer(_group(), namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(BACKLOG_TOPIC)
        while not backlog.done.is_set():
            messages = consumer.poll(LIST)
            for message in messages:
                len(message.body)
            backlog.take(len(messages))
    return backlog.figures


# --- latency


def latency_plain(namesrv: str, count: int) -> Figures:
    """From `send` to a plain function of a push consumer, 1,000 a second in one process."""
    spans = Spans()
    with Producer(namesrv) as producer:
        producer.send(Message(LATENCY_TOPIC, BODY))
        consumer = PushConsumer(_group(), namesrv, consume_from="latest")

        @consumer.on_message(LATENCY_TOPIC)
        def handle(message: Any) -> None:
            spans.add(message.body)

        with consumer:
            consumer.wait_assigned(10)
            return spans.measure(lambda body: producer.send(Message(LATENCY_TOPIC, body)), count)


def latency_async(namesrv: str, count: int) -> Figures:
    """The same with asyncio: awaited sends and an `async def`, on one loop."""

    async def run() -> Figures:
        spans = Spans()
        async with aio.Producer(namesrv) as producer:
            await producer.send(Message(LATENCY_TOPIC, BODY))
            consumer = aio.PushConsumer(_group(), namesrv, consume_from="latest")

            @consumer.on_message(LATENCY_TOPIC)
            async def handle(message: Any) -> None:
                spans.add(message.body)

            async with consumer:
                await consumer.wait_assigned(10)
                return await spans.measure_async(
                    lambda body: producer.send(Message(LATENCY_TOPIC, body)), count
                )

    return asyncio.run(run())


CASES: dict[str, Load] = {
    "futures_with_limits": futures_with_limits,
    "futures_with_semaphore": futures_with_semaphore,
    "futures_in_lists": futures_in_lists,
    "callbacks": callbacks,
    "oneway": oneway,
    "send_one": send_one,
    "in_threads": in_threads,
    "awaited_256": _awaited(IN_FLIGHT, None),
    "awaited_4096": _awaited(4096, None),
    "linger_256": _awaited(IN_FLIGHT, 0.005),
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

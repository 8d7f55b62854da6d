"""Python clients against our broker: ours, asyncio and threads, and the PyPI wheel `rocketmq`."""

import asyncio
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

from benches.cases import BACKLOG_TOPIC, make_backlog
from benches.harness import Mode, Report, command_line, mode_of
from benches.python_wheel import Wheel, WheelMissing
from benches.servers import Cluster, Ours
from mqclient import Message
from mqclient import Producer as BlockingProducer
from mqclient.aio import Producer, PushConsumer

BACKLOG_MESSAGES = {"smoke": 2_000, "large": 200_000}
CONSUME_DEADLINE_SECONDS = 60.0
TOPIC = "BenchPython"
BODY = bytes(1024)
SMALL_BODY = bytes(128)
BATCH = 32


def main(smoke: bool = False) -> None:
    """Run every case and print the table."""
    mode = mode_of(smoke)
    report = Report("python_client", mode)
    folder = Path(tempfile.mkdtemp(prefix="mqbench-"))
    try:
        with Ours(folder / "ours", {}) as cluster:
            _send_rows(report, cluster, mode)
            backlog = BACKLOG_MESSAGES[mode.name]
            make_backlog(cluster, backlog)
            _consume_rows(report, cluster, mode, backlog)
            try:
                _wheel_rows(report, Wheel(folder / "wheel"), cluster, mode, backlog)
            except WheelMissing as missing:
                print(f"the wheel's rows are left out: {missing}")
    finally:
        shutil.rmtree(folder)
    report.finish()


def _send_rows(report: Report, cluster: Cluster, mode: Mode) -> None:
    def row(case: str, run: Callable[[float], float]) -> None:
        run(mode.warmup_seconds)
        rounds = [{"messages_per_s": run(mode.seconds)} for _ in range(mode.rounds)]
        report.add(case, rounds)

    for in_flight in (1, 256):
        row(
            f"awaited sends, {in_flight} in flight",
            lambda seconds, n=in_flight: asyncio.run(send(cluster, n, seconds)),  # type: ignore[misc]
        )
    row(
        f"awaited batches of {BATCH} x 128 B, 16 in flight",
        lambda seconds: asyncio.run(send(cluster, 16, seconds, batch=BATCH)),
    )
    for threads in (1, 8, 64):
        row(
            f"blocking sends, {threads} threads",
            lambda seconds, n=threads: send_in_threads(cluster, n, seconds),  # type: ignore[misc]
        )


def _consume_rows(report: Report, cluster: Cluster, mode: Mode, backlog: int) -> None:
    kinds = (
        ("async handler, 32 at once", True, BATCH),
        ("async handler, one at a time", True, 1),
        ("handler in threads, 32 at once", False, BATCH),
    )
    for name, on_loop, at_once in kinds:
        rounds = [
            {"messages_per_s": asyncio.run(consume(cluster, backlog, on_loop, at_once))}
            for _ in range(mode.rounds)
        ]
        report.add(f"push consumer, {name}", rounds)


def _wheel_rows(report: Report, wheel: Wheel, cluster: Cluster, mode: Mode, backlog: int) -> None:
    for threads in (1, 8, 64):
        wheel.send(cluster.namesrv, TOPIC, threads, mode.warmup_seconds)
        rounds = [
            {"messages_per_s": wheel.send(cluster.namesrv, TOPIC, threads, mode.seconds)}
            for _ in range(mode.rounds)
        ]
        report.add(f"wheel rocketmq: blocking sends, {threads} threads", rounds)
    rounds = [
        {"messages_per_s": wheel.consume(cluster.namesrv, BACKLOG_TOPIC, backlog)}
        for _ in range(mode.rounds)
    ]
    report.add("wheel rocketmq: push consumer, one at a time", rounds)


async def send(cluster: Cluster, in_flight: int, seconds: float, batch: int = 0) -> float:
    """Messages per second of `in_flight` tasks that send one after the other.

    batch: messages of 128 B sent together; 0 sends messages of 1 KiB singly.
    """
    sent = 0

    async def sender(producer: Producer, end: float) -> None:
        nonlocal sent
        while time.monotonic() < end:
            if batch:
                await producer.send([Message(TOPIC, SMALL_BODY) for _ in range(batch)])
                sent += batch
            else:
                await producer.send(Message(TOPIC, BODY))
                sent += 1

    async with Producer(cluster.namesrv) as producer:
        await producer.send(Message(TOPIC, BODY))  # creates the topic, finds the route
        started = time.monotonic()
        senders = (sender(producer, started + seconds) for _ in range(in_flight))
        await asyncio.gather(*senders)
        return sent / (time.monotonic() - started)


def send_in_threads(cluster: Cluster, threads: int, seconds: float) -> float:
    """Messages per second of threads that share a blocking producer."""
    sent = [0] * threads

    def sender(number: int, end: float) -> None:
        while time.monotonic() < end:
            producer.send(Message(TOPIC, BODY))
            sent[number] += 1

    with BlockingProducer(cluster.namesrv) as producer:
        producer.send(Message(TOPIC, BODY))
        started = time.monotonic()
        running = [
            threading.Thread(target=sender, args=(number, started + seconds))
            for number in range(threads)
        ]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        return sum(sent) / (time.monotonic() - started)


async def consume(
    cluster: Cluster, messages: int, on_loop: bool = True, at_once: int = BATCH
) -> float:
    """Messages per second from the first one handled to the last of the backlog."""
    seen, started = 0, 0.0
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    lock = threading.Lock()

    def handle(batch: list[object], context: object) -> None:
        nonlocal seen, started
        with lock:
            started = started or time.monotonic()
            seen += len(batch)
            if seen >= messages:
                loop.call_soon_threadsafe(done.set)

    async def handle_on_loop(batch: list[object], context: object) -> None:
        nonlocal seen, started
        started = started or time.monotonic()
        seen += len(batch)
        if seen >= messages:
            done.set()

    group = f"bench_python_{time.monotonic_ns()}"
    consumer = PushConsumer(group, cluster.namesrv, consume_from="earliest", batch_size=at_once)
    consumer.subscribe(BACKLOG_TOPIC, "*", handle_on_loop if on_loop else handle)
    async with consumer:
        await asyncio.wait_for(done.wait(), CONSUME_DEADLINE_SECONDS)
        return seen / (time.monotonic() - started)


if __name__ == "__main__":
    command_line(main)

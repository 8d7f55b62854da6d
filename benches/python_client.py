"""Our Python client against our broker: awaited sends, and a push consumer reading a backlog."""

import asyncio
import shutil
import tempfile
import time
from pathlib import Path

from benches.cases import BACKLOG_TOPIC, make_backlog
from benches.harness import Report, command_line, mode_of
from benches.servers import Cluster, Ours
from mqclient.aio import Message, Producer, PushConsumer

BACKLOG_MESSAGES = {"smoke": 2_000, "large": 200_000}
CONSUME_DEADLINE_SECONDS = 60.0
BODY = bytes(1024)


def main(smoke: bool = False) -> None:
    """Run every case and print the table."""
    mode = mode_of(smoke)
    report = Report("python_client", mode)
    folder = Path(tempfile.mkdtemp(prefix="mqbench-"))
    try:
        with Ours(folder / "ours", {}) as cluster:
            for in_flight in (1, 256):
                asyncio.run(send(cluster, in_flight, mode.warmup_seconds))
                rounds = [
                    {"messages_per_s": asyncio.run(send(cluster, in_flight, mode.seconds))}
                    for _ in range(mode.rounds)
                ]
                report.add(f"awaited sends, {in_flight} in flight", rounds)
            backlog = BACKLOG_MESSAGES[mode.name]
            make_backlog(cluster, backlog)
            rounds = [
                {"messages_per_s": asyncio.run(consume(cluster, backlog, number))}
                for number in range(mode.rounds)
            ]
            report.add(f"push consumer, backlog of {backlog}", rounds)
    finally:
        shutil.rmtree(folder)
    report.finish()


async def send(cluster: Cluster, in_flight: int, seconds: float) -> float:
    """Messages per second of `in_flight` tasks that send one message after the other."""
    sent = 0

    async def sender(producer: Producer, end: float) -> None:
        nonlocal sent
        while time.monotonic() < end:
            await producer.send(Message("BenchPython", BODY))
            sent += 1

    async with Producer(cluster.namesrv) as producer:
        await producer.send(Message("BenchPython", BODY))  # creates the topic, finds the route
        started = time.monotonic()
        senders = (sender(producer, started + seconds) for _ in range(in_flight))
        await asyncio.gather(*senders)
        return sent / (time.monotonic() - started)


async def consume(cluster: Cluster, messages: int, number: int) -> float:
    """Messages per second from the first one handled to the last of the backlog."""
    seen, started = 0, 0.0
    done = asyncio.Event()

    async def handle(batch: list[object], context: object) -> None:
        nonlocal seen, started
        started = started or time.monotonic()
        seen += len(batch)
        if seen >= messages:
            done.set()

    group = f"bench_python_{number}"
    consumer = PushConsumer(group, cluster.namesrv, consume_from="earliest", batch_size=32)
    consumer.subscribe(BACKLOG_TOPIC, "*", handle)
    async with consumer:
        await asyncio.wait_for(done.wait(), CONSUME_DEADLINE_SECONDS)
        return seen / (time.monotonic() - started)


if __name__ == "__main__":
    command_line(main)

"""Python clients against our broker: ours with asyncio and with threads, compared with others.

The others are the PyPI wheel `rocketmq` and RocketMQ's Java client; the clients alternate round by
round. Consumers read the body and one property of every message, because our client decodes them
only on access. `python -m benches.cases.python_client --long` runs more and longer rounds.
"""

import argparse
import asyncio
import shutil
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benches.lib.harness import LARGE, SMOKE, Mode, Report, saying_no, verdict
from benches.lib.java_client import JavaClient, JavaConsume, JavaSend
from benches.lib.loads import BACKLOG_TOPIC, make_backlog
from benches.lib.python_wheel import Wheel, WheelMissing
from benches.lib.servers import Cluster, Ours
from mqclient import Admin, Message, reply
from mqclient import Producer as BlockingProducer
from mqclient.aio import (
    LitePullConsumer,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
)
from mqcommon.wire.bodies.topics import TopicConfig
from scripts import java_rocketmq

SHORT = Mode("large", seconds=1.0, warmup_seconds=0.3, rounds=3)
LONG = Mode("long", LARGE.seconds, LARGE.warmup_seconds, LARGE.rounds)
BACKLOG_MESSAGES = {"smoke": 2_000, "large": 200_000, "long": 200_000}
WHEEL_SHARE = 4
"""The wheel reads only 1/4 of the backlog, because its rate is a tenth of ours."""
JAVA_WARMUP = {"smoke": 0.2, "large": 4.0, "long": 10.0}
"""Seconds of sending before the first case, in which the JVM compiles the hot code."""
CONSUME_DEADLINE_SECONDS = 60.0
TOPIC = "BenchPython"
BODY = bytes(1024)
SMALL_BODY = bytes(128)
BATCH = 32
UNIQUE_KEY = "UNIQ_KEY"
"""The property that consumers read; reading one property decodes all properties of a message."""
OTHERS = ("wheel", "java")
ASKED_TOPIC = "BenchAsked"
ORDERLY_TOPIC = "BenchOrderly"
ORDERLY_QUEUES = 16
ORDERLY_SHARE_MIN = 0.25
"""Lowest rate of orderly consumption, as a share of the batch handler's rate on the topic."""
LITE_PULL_SHARE_MIN = 0.5
"""Lowest rate of `async for` over a lite pull consumer, as a share of the batch handler's rate."""

Exchange = Callable[[Cluster, int, float], Coroutine[Any, Any, float]]
Rate = Callable[[float], float]
"""Runs a load for the given seconds and returns messages per second."""


@dataclass(frozen=True)
class Bench:
    """The broker, the report, and the installed clients."""

    report: Report
    mode: Mode
    cluster: Cluster
    wheel: Wheel | None
    java: JavaClient | None

    @property
    def backlog(self) -> int:
        """Number of messages in the topic that consumers read."""
        return BACKLOG_MESSAGES[self.mode.name]

    def row(self, case: str, ours: Rate, others: Mapping[str, Rate], warm: bool = True) -> None:
        """Measure one case, alternating the clients; a client without a rate gets an empty cell."""
        rates = {"ours": ours, **others}
        if warm:
            for rate in rates.values():
                rate(self.mode.warmup_seconds)
        rounds: list[dict[str, Any]] = []
        for _ in range(self.mode.rounds):
            one = {name: rate(self.mode.seconds) for name, rate in rates.items()}
            of = {name: one["ours"] / one[name] for name in others}
            rounds.append(
                {"ours": one["ours"]}
                | {name: one.get(name) for name in OTHERS}
                | {f"of_{name}": of.get(name) for name in OTHERS}
            )
        self.report.add(case, rounds)

    def by_wheel(self, rate: Callable[[Wheel, float], float]) -> dict[str, Rate]:
        """The wheel's rate, if it is installed."""
        return {} if self.wheel is None else {"wheel": partial(rate, self.wheel)}

    def by_java(self, **load: int) -> dict[str, Rate]:
        """The Java client's send rate, if Java is installed; see `JavaSend`."""
        if self.java is None:
            return {}
        load_of_it = JavaSend(self.java, **load)
        return {"java": lambda seconds: _java_rate(load_of_it, self.cluster, seconds)}


def main(smoke: bool = False, long: bool = False) -> None:
    """Run every case and print the table."""
    mode = SMOKE if smoke else LONG if long else SHORT
    report = Report("python_client", mode)
    folder = Path(tempfile.mkdtemp(prefix="mqbench-"))
    try:
        with Ours(folder / "ours", {}) as cluster, _java_client(folder / "java") as java:
            bench = Bench(report, mode, cluster, _wheel(folder / "wheel"), java)
            if java is not None:
                warm = JavaSend(java, threads=8)
                _java_rate(warm, cluster, JAVA_WARMUP[mode.name])
            _send_rows(bench)
            _exchange_rows(bench)
            make_backlog(cluster, bench.backlog)
            _consume_rows(bench)
            _lite_pull_row(bench)
            _orderly_rows(bench)
    finally:
        shutil.rmtree(folder)
    report.finish()


def _wheel(folder: Path) -> Wheel | None:
    try:
        return Wheel(folder)
    except WheelMissing as missing:
        print(f"the wheel's column is left out: {missing}")
        return None


@contextmanager
def _java_client(folder: Path) -> Iterator[JavaClient | None]:
    """One JVM for all cases; None without a JDK, after printing the reason."""
    folder.mkdir()
    try:
        if absent := java_rocketmq.missing():
            raise java_rocketmq.JavaMissing(absent)
        client = JavaClient(folder)
    except java_rocketmq.JavaMissing as missing:
        print(f"Java's column is left out: {missing}")
        yield None
        return
    try:
        yield client
    finally:
        client.stop()


def _java_rate(load: JavaSend | JavaConsume, cluster: Cluster, seconds: float) -> float:
    return float(load.run(cluster, seconds)["messages_per_second"])


def _send_rows(bench: Bench) -> None:
    cluster = bench.cluster
    for in_flight in (1, 256):
        bench.row(
            f"awaited sends, {in_flight} in flight",
            lambda seconds, n=in_flight: asyncio.run(send(cluster, n, seconds)),  # type: ignore[misc]
            bench.by_java(in_flight=in_flight),
        )
    bench.row(
        f"awaited batches of {BATCH} x 128 B, 16 in flight",
        lambda seconds: asyncio.run(send(cluster, 16, seconds, batch=BATCH)),
        bench.by_java(in_flight=16, batch=BATCH, body_bytes=len(SMALL_BODY)),
    )
    for threads in (1, 8, 64):
        wheel = bench.by_wheel(partial(_wheel_sends, cluster, threads))
        bench.row(
            f"blocking sends, {threads} threads",
            partial(send_in_threads, cluster, threads),
            {**wheel, **bench.by_java(threads=threads)},
        )


def _exchange_rows(bench: Bench) -> None:
    """Transactions from the half message to the commit, and requests up to their reply."""
    for in_flight in (1, 64):
        for name, exchange in (("transactions", transact), ("requests with a reply", request)):
            rate = partial(_exchanged, exchange, bench.cluster, in_flight)
            bench.row(f"{name}, {in_flight} in flight", rate, {})


def _exchanged(exchange: Exchange, cluster: Cluster, in_flight: int, seconds: float) -> float:
    return asyncio.run(exchange(cluster, in_flight, seconds))


async def transact(cluster: Cluster, in_flight: int, seconds: float) -> float:
    """Committed transactions per second of tasks that each run one after the other."""

    async def one(producer: TransactionProducer) -> None:
        async with producer.transaction(Message(TOPIC, BODY)) as transaction:
            await transaction.commit()

    group = "BenchTransactions"
    async with TransactionProducer(group, cluster.namesrv, check=lambda _message: None) as producer:
        return await _repeat(lambda: one(producer), in_flight, seconds)


async def request(cluster: Cluster, in_flight: int, seconds: float) -> float:
    """Replies per second to tasks that each send one request at a time to a push consumer."""
    async with (
        Producer(cluster.namesrv, group="BenchAskers") as asker,
        Producer(cluster.namesrv, group="BenchRepliers") as replier,
        PushConsumer("BenchReplies", cluster.namesrv) as consumer,
    ):
        await asker.send(Message(ASKED_TOPIC, SMALL_BODY))  # creates the topic

        async def answer(messages: list[ReceivedMessage], _context: object) -> None:
            for message in messages:
                if message.properties.get("CORRELATION_ID"):
                    await replier.send(reply(message, SMALL_BODY))

        consumer.subscribe(ASKED_TOPIC, "*", answer)
        await consumer.wait_assigned(CONSUME_DEADLINE_SECONDS)
        question = Message(ASKED_TOPIC, SMALL_BODY)
        await asker.request(question, timeout=CONSUME_DEADLINE_SECONDS)
        return await _repeat(lambda: asker.request(question, timeout=30), in_flight, seconds)


async def _repeat(work: Callable[[], Awaitable[object]], in_flight: int, seconds: float) -> float:
    """Calls of `work` per second by `in_flight` tasks."""
    await work()
    started = time.monotonic()
    done = 0

    async def one() -> None:
        nonlocal done
        while time.monotonic() < started + seconds:
            await work()
            done += 1

    await asyncio.gather(*(one() for _ in range(in_flight)))
    return done / (time.monotonic() - started)


def _wheel_sends(cluster: Cluster, threads: int, wheel: Wheel, seconds: float) -> float:
    return wheel.send(cluster.namesrv, TOPIC, threads, seconds)


def _consume_rows(bench: Bench) -> None:
    kinds = (
        ("async handler, 32 at once", True, BATCH),
        ("async handler, one at a time", True, 1),
        ("handler in threads, 32 at once", False, BATCH),
        ("handler in threads, one at a time", False, 1),
    )
    cluster, backlog = bench.cluster, bench.backlog
    for name, on_loop, at_once in kinds:
        others: dict[str, Rate] = {}
        if bench.java is not None:
            load = JavaConsume(bench.java, backlog, at_once)
            others["java"] = partial(_java_rate, load, cluster)
        if at_once == 1:
            others |= bench.by_wheel(partial(_wheel_consumes, cluster, backlog // WHEEL_SHARE))
        bench.row(
            f"push consumer, {name}",
            partial(_consumed, cluster, backlog, on_loop, at_once),
            others,
            warm=False,
        )


def _lite_pull_row(bench: Bench) -> None:
    """Read the backlog with `async for`, alternating with the batch handler on the loop."""
    rounds = []
    for _ in range(bench.mode.rounds):
        batch = asyncio.run(consume(bench.cluster, bench.backlog))
        ours = asyncio.run(iterate(bench.cluster, bench.backlog))
        rounds.append({"ours": ours, "batch_handler": batch, "of_batch_handler": ours / batch})
    row = bench.report.add("lite pull by async for", rounds)
    row["met"] = verdict(row["of_batch_handler"] >= LITE_PULL_SHARE_MIN)


def _orderly_rows(bench: Bench) -> None:
    """Read a backlog of 16 queues in order and message by message, compared with the batch
    handler."""
    with Admin(bench.cluster.namesrv) as admin:
        config = TopicConfig(
            ORDERLY_TOPIC, read_queue_nums=ORDERLY_QUEUES, write_queue_nums=ORDERLY_QUEUES
        )
        admin.topics.update(config, cluster="DefaultCluster")
    make_backlog(bench.cluster, bench.backlog, ORDERLY_TOPIC)
    read = partial(consume, bench.cluster, bench.backlog, topic=ORDERLY_TOPIC)
    kinds: dict[str, Callable[[], Coroutine[Any, Any, float]]] = {
        f"orderly over {ORDERLY_QUEUES} queues, 32 at once": partial(read, orderly=True),
        "one-message handler, async def": partial(read, one_message=True),
        "one-message handler, orderly": partial(read, one_message=True, orderly=True),
    }
    rounds: dict[str, list[dict[str, Any]]] = {name: [] for name in kinds}
    for _ in range(bench.mode.rounds):
        batch = asyncio.run(read())
        for name, kind in kinds.items():
            ours = asyncio.run(kind())
            rounds[name].append(
                {"ours": ours, "batch_handler": batch, "of_batch_handler": ours / batch}
            )
    for name, measured in rounds.items():
        row = bench.report.add(f"push consumer, {name}", measured)
        if name.startswith("orderly"):
            row["met"] = verdict(row["of_batch_handler"] >= ORDERLY_SHARE_MIN)


def _wheel_consumes(cluster: Cluster, messages: int, wheel: Wheel, _seconds: float) -> float:
    return wheel.consume(cluster.namesrv, BACKLOG_TOPIC, messages)


def _consumed(
    cluster: Cluster, messages: int, on_loop: bool, at_once: int, _seconds: float
) -> float:
    return asyncio.run(consume(cluster, messages, on_loop, at_once))


async def send(cluster: Cluster, in_flight: int, seconds: float, batch: int = 0) -> float:
    """Messages per second of `in_flight` tasks that each send one request at a time.

    batch: number of 128 B messages per send; 0 sends single messages of 1 KiB.
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
    cluster: Cluster,
    messages: int,
    on_loop: bool = True,
    at_once: int = BATCH,
    *,
    topic: str = BACKLOG_TOPIC,
    orderly: bool = False,
    one_message: bool = False,
) -> float:
    """Messages per second, from the first handled message to the last one of the backlog.

    one_message: use a handler on the loop that takes one message. Every handler reads each message,
    because Java's client has already decoded it and ours decodes on access. Raises RuntimeError if
    fewer bytes were read than sent.
    """
    seen, read, started = 0, 0, 0.0
    done = asyncio.Event()
    loop = asyncio.get_running_loop()
    lock = threading.Lock()

    def handle(batch: list[ReceivedMessage], context: object) -> None:
        nonlocal seen, read, started
        began = time.monotonic()
        read_here = read_all(batch)
        with lock:
            started = min(started or began, began)
            seen += len(batch)
            read += read_here
            if seen >= messages:
                loop.call_soon_threadsafe(done.set)

    async def handle_on_loop(batch: list[ReceivedMessage], context: object) -> None:
        nonlocal seen, read, started
        started = started or time.monotonic()
        read += read_all(batch)
        seen += len(batch)
        if seen >= messages:
            done.set()

    async def handle_one(message: ReceivedMessage) -> None:
        nonlocal seen, read, started
        started = started or time.monotonic()
        read += len(message.body) + len(message.properties[UNIQUE_KEY])
        seen += 1
        if seen >= messages:
            done.set()

    group = f"bench_python_{time.monotonic_ns()}"
    consumer = PushConsumer(
        group, cluster.namesrv, consume_from="earliest", batch_size=at_once, orderly=orderly
    )
    if one_message:
        consumer.on_message(topic)(handle_one)
    else:
        consumer.subscribe(topic, "*", handle_on_loop if on_loop else handle)
    async with consumer:
        await asyncio.wait_for(done.wait(), CONSUME_DEADLINE_SECONDS)
        took = time.monotonic() - started
        if read < seen * len(BODY):
            raise RuntimeError(f"{read} bytes were read of {seen} messages")
        return seen / took


async def iterate(cluster: Cluster, messages: int) -> float:
    """Messages per second of a loop over a lite pull consumer; reads each message as `consume`
    does."""
    seen, read, started = 0, 0, 0.0
    group = f"bench_python_{time.monotonic_ns()}"
    async with LitePullConsumer(group, cluster.namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(BACKLOG_TOPIC)
        async with asyncio.timeout(CONSUME_DEADLINE_SECONDS):
            async for message in consumer:
                started = started or time.monotonic()
                read += len(message.body) + len(message.properties[UNIQUE_KEY])
                seen += 1
                if seen == messages:
                    break
        took = time.monotonic() - started
    if read < seen * len(BODY):
        raise RuntimeError(f"{read} bytes were read of {seen} messages")
    return seen / took


def read_all(batch: list[ReceivedMessage]) -> int:
    """Bytes of all bodies and of one property of each message."""
    return sum(len(one.body) + len(one.properties[UNIQUE_KEY]) for one in batch)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--smoke", action="store_true", help="run for seconds, only to see that it works"
    )
    parser.add_argument("--long", action="store_true", help="run more and longer rounds, 8 minutes")
    arguments = vars(parser.parse_args())
    with saying_no():
        main(**arguments)

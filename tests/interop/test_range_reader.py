"""Tasks of the Spark source read from Java brokers. No Spark session."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytest.importorskip("pyspark")
from mqclient import Message, Producer, SendResult
from mqclient.errors import BrokerError
from mqcommon._core import RangeReader
from mqcommon.message import MessageQueue
from mqpipeline.spark.topics import ranges as ranges_module
from mqpipeline.spark.topics.batch import BatchReader
from mqpipeline.spark.topics.cluster import Cluster, DataLossError, Extent
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.plan import QueueRange
from mqpipeline.spark.topics.task import Task, read_task
from mqstore.arrow import BatchBuilder, arrow_schema
from tests.interop.java_servers import JavaBroker, JavaNamesrv
from tests.interop.turns import Turns
from tests.waiting import answer_of, until

BODY_BYTES_MAX = 12 << 20
SETTINGS = {"maxMessageSize": BODY_BYTES_MAX, "mappedFileSizeCommitLog": 64 << 20}
COLUMNS = ("queue_id", "queue_offset", "msg_id", "tags", "keys", "body")


class Pair(NamedTuple):
    """A Java master with a Java slave."""

    namesrv: str
    master: JavaBroker
    slave: JavaBroker


@pytest.fixture(scope="module")
def namesrv(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = JavaNamesrv(tmp_path_factory.mktemp("namesrv"))
    yield server.address
    server.discard()


@pytest.fixture(scope="module")
def pair(namesrv: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    master = JavaBroker(tmp_path_factory.mktemp("master"), namesrv, settings=SETTINGS)
    role = {**SETTINGS, "brokerRole": "SLAVE", "brokerId": 1, "slaveReadEnable": "true"}
    slave = JavaBroker(tmp_path_factory.mktemp("slave"), namesrv, settings=role)
    yield Pair(namesrv, master, slave)
    slave.discard()
    master.discard()


def options(namesrv: str, topic: str, **given: str) -> Options:
    return Options.parse({"namesrv": namesrv, "topic": topic, **given})


def send(namesrv: str, messages: list[Message]) -> list[SendResult]:
    with Producer(namesrv, body_bytes_max=BODY_BYTES_MAX) as producer:
        return [producer.send(message) for message in messages]


def await_messages(parsed: Options, count: int) -> None:
    """Wait until `count` messages can be read: Java writes its consume queues a little later."""

    def there() -> int:
        with Cluster(parsed) as cluster:
            extents = cluster.extents(cluster.queues(parsed.topics[0])).values()
        return sum(extent.end - extent.first for extent in extents if extent)

    answer_of(there, lambda found: found == count)


def rows(parsed: Options, count: int | None = None) -> list[dict[str, Any]]:
    if count is not None:
        await_messages(parsed, count)
    reader = BatchReader(arrow_schema(COLUMNS), parsed)
    tasks = reader.partitions()
    return [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]


def test_bytes_are_those_that_were_sent(pair: Pair) -> None:
    topic = "RangeBytes"
    random.seed(7)
    sizes = [10 << 20, 4 << 20, *(at % 3000 for at in range(1, 1500)), 10 << 20]
    messages = [
        Message(topic, random.randbytes(size), tags=f"Tag{at % 3}", keys=f"k{at}")
        for at, size in enumerate(sizes)
    ]
    results = send(pair.namesrv, messages)
    found = rows(options(pair.namesrv, topic), len(sizes))
    wanted = [
        {
            "queue_id": result.message_queue.queue_id,
            "queue_offset": result.queue_offset,
            "msg_id": result.msg_id,
            "tags": message.tags,
            "keys": message.properties.get("KEYS"),
            "body": message.body,
        }
        for message, result in zip(messages, results, strict=True)
    ]
    place = ("queue_id", "queue_offset")
    for one, other in zip(
        sorted(found, key=lambda row: tuple(row[name] for name in place)),
        sorted(wanted, key=lambda row: tuple(row[name] for name in place)),
        strict=True,
    ):
        assert one == other, (one["queue_id"], one["queue_offset"])


def test_tags_and_sql_are_matched_by_the_broker(pair: Pair) -> None:
    topic = "RangeFilter"
    messages = [
        Message(topic, b"%d" % at, tags=f"Tag{at % 3}", properties={"a": str(at)})
        for at in range(300)
    ]
    send(pair.namesrv, messages)
    parsed = options(pair.namesrv, topic)
    await_messages(parsed, 300)
    tagged = rows(options(pair.namesrv, topic, tags="Tag0||Tag2"))
    assert sorted(int(row["body"]) for row in tagged) == [at for at in range(300) if at % 3 != 1]
    found: list[int] = []
    with Cluster(parsed) as cluster:
        extents = cluster.extents(cluster.queues(topic))
    for queue, extent in extents.items():
        assert extent is not None
        plan = sql_plan(pair, queue, extent, "a BETWEEN 100 AND 200 OR a > 295")
        reader, builder = RangeReader({}, [plan]), BatchBuilder(arrow_schema(["body"]))
        assert builder.fill(reader.fill) == (True, [])
        reader.close()
        found += [int(row["body"]) for row in builder.take().to_pylist()]
    assert sorted(found) == [*range(100, 201), *range(296, 300)]


def sql_plan(pair: Pair, queue: MessageQueue, extent: Extent, condition: str) -> dict[str, Any]:
    return {
        "master": pair.master.address,
        "broker_name": queue.broker_name,
        "topic": queue.topic,
        "queue_id": queue.queue_id,
        "first": extent.first,
        "end": extent.end,
        "group": "TOOLS_CONSUMER",
        "filter": condition,
        "pull_count": 32,
        "pulls_in_flight": 4,
        "waiting_bytes": 1 << 20,
        "timeout": 30,
        "retry_timeout": 30,
    }


def slave_has(aside: Options, pieces: list[QueueRange]) -> bool:
    """Whether the slave serves all messages: a Java slave copies new topics every ten seconds."""
    try:
        list(read_task(Task(tuple(pieces)), arrow_schema(["queue_offset"]), aside))
    except (BrokerError, DataLossError):
        return False
    return True


def test_a_slave_is_read_when_the_master_goes_away(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, count = "RangeSlave", 12_000
    with Producer(pair.namesrv) as producer:
        for _ in range(12):
            producer.send([Message(topic, b"x" * 100) for _ in range(1000)])
    parsed = options(pair.namesrv, topic)
    await_messages(parsed, count)
    with Cluster(parsed) as cluster:
        extents = cluster.extents(cluster.queues(topic))
        assert cluster.addresses(next(iter(extents))) == (pair.master.address, pair.slave.address)
    pieces = [QueueRange(q, extent.first, extent.end) for q, extent in extents.items() if extent]
    aside = options(pair.namesrv, topic, addressMap=f"{pair.master.address}={pair.slave.address}")
    assert until(lambda: slave_has(aside, pieces))
    monkeypatch.setattr(ranges_module, "WAITING_BYTES", 1 << 16)
    found = read_task(Task(tuple(pieces)), arrow_schema(["queue_offset"]), parsed)
    read = next(found).num_rows
    pair.master.kill()
    assert read < count
    assert read + sum(batch.num_rows for batch in found) == count


def test_expired_offsets_are_an_error_or_left_out(namesrv: str, tmp_path: Path) -> None:
    topic, queues = "RangeExpired", 4
    with Turns(tmp_path, namesrv, {"brokerName": "broker-e"}) as turns:
        broker = turns.start("java")
        send(namesrv, [Message(topic, b"%d" % at + b"." * 1000) for at in range(300)])
        parsed = options(namesrv, topic)
        await_messages(parsed, 300)
        broker.stop()
        for path in sorted((turns.store / "commitlog").iterdir())[:2]:
            path.unlink()
        turns.start("java")
        with Cluster(parsed) as cluster:
            found = answer_of(lambda: cluster.queues(topic), lambda some: len(some) == queues)
            extents = answer_of(
                lambda: cluster.extents(found), lambda some: all(one for one in some.values())
            )
        firsts = [extent.first for extent in extents.values() if extent]
        assert min(firsts) > 0
        whole = Task(tuple(QueueRange(q, 0, extent.end) for q, extent in extents.items() if extent))
        schema = arrow_schema(["queue_id", "queue_offset"])
        with pytest.raises(DataLossError, match=r"offset \d+ is gone, the broker goes on at \d+"):
            list(read_task(whole, schema, parsed))
        lenient = options(namesrv, topic, failOnDataLoss="false")
        left = sum(batch.num_rows for batch in read_task(whole, schema, lenient))
        assert left == sum(extent.end - extent.first for extent in extents.values() if extent)

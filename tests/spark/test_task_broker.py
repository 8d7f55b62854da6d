"""What tasks read from our broker: bytes, filters, damage, restarts. No Spark session."""

from __future__ import annotations

import random

import pytest

pytest.importorskip("pyspark")
from mqclient import Message, Producer
from mqclient.errors import UnreachableError
from mqcommon._core import RangeReader
from mqpipeline.spark.topics import ranges as ranges_module
from mqpipeline.spark.topics.batch import BatchReader
from mqpipeline.spark.topics.cluster import DataLossError
from mqpipeline.spark.topics.options import Options
from mqserver import Standalone
from mqstore.arrow import BatchBuilder, arrow_schema

BODY_BYTES_MAX = 12 << 20


@pytest.fixture(scope="module")
def mq():
    settings = {"maxMessageSize": str(BODY_BYTES_MAX), "enablePropertyFilter": "true"}
    with Standalone(settings=settings) as mq:
        yield mq


def send(mq, topic, messages, queues=2):
    mq.topic(topic, queues=queues)
    with Producer(mq.namesrv, body_bytes_max=BODY_BYTES_MAX) as producer:
        for message in messages:
            producer.send(message)
    mq.wait_dispatched()


def batches(mq, topic, columns=("queue_id", "queue_offset", "body"), **options):
    parsed = Options.parse({"namesrv": mq.namesrv, "topic": topic, **options})
    reader = BatchReader(arrow_schema(columns), parsed)
    for task in reader.partitions():
        yield from reader.read(task)


def rows(found):
    return [row for batch in found for row in batch.to_pylist()]


def test_every_field_is_what_other_clients_get(mq):
    topic = "TaskBytes"
    random.seed(7)
    sent = [
        Message(topic, random.randbytes(at % 97 + 1), tags=f"Tag{at % 3}", keys=f"k{at}")
        for at in range(500)
    ]
    send(mq, topic, sent)
    columns = ("queue_id", "queue_offset", "commit_log_offset", "msg_id", "tags", "keys", "body")
    found = rows(batches(mq, topic, columns))
    assert sorted(found, key=lambda row: row["commit_log_offset"]) == [
        {name: getattr(message, name) for name in columns} | {"keys": message.keys[0]}
        for message in sorted(mq.messages(topic), key=lambda m: m.commit_log_offset)
    ]
    assert len(found) == 500


def test_bodies_as_large_as_the_broker_allows(mq):
    topic = "TaskLarge"
    bodies = [random.randbytes(size) for size in (10 << 20, 4 << 20, 1, 10 << 20, 4 << 20)]
    send(mq, topic, [Message(topic, body) for body in bodies], queues=1)
    assert [row["body"] for row in rows(batches(mq, topic))] == bodies


def test_tags_and_sql_leave_the_others_at_the_broker(mq):
    topic = "TaskFilter"
    sent = [
        Message(topic, b"%d" % at, tags=f"Tag{at % 3}", properties={"a": str(at)})
        for at in range(900)
    ]
    send(mq, topic, sent, queues=1)
    tagged = rows(batches(mq, topic, tags="Tag0 || Tag2"))
    assert [int(row["body"]) for row in tagged] == [at for at in range(900) if at % 3 != 1]
    plan = {
        "master": mq.broker_address,
        "broker_name": "broker-a",
        "topic": topic,
        "queue_id": 0,
        "first": 10,
        "end": 890,
        "group": "TOOLS_CONSUMER",
        "filter": "a BETWEEN 100 AND 200 OR a > 885",
        "pull_count": 64,
        "pulls_in_flight": 4,
        "waiting_bytes": 1 << 20,
        "timeout": 10,
        "retry_timeout": 10,
    }
    reader, builder = RangeReader({}, [plan]), BatchBuilder(arrow_schema(["body"]))
    assert builder.fill(reader.fill) == (True, [])
    reader.close()
    wanted = [*range(100, 201), *range(886, 890)]
    assert [int(row["body"]) for row in builder.take().to_pylist()] == wanted


def test_a_restart_of_the_broker_does_not_end_a_read(mq, monkeypatch):
    topic = "TaskRestart"
    send(mq, topic, [[Message(topic, b"x") for _ in range(1000)] for _ in range(25)], queues=1)
    monkeypatch.setattr(ranges_module, "WAITING_BYTES", 1 << 16)
    found = batches(mq, topic, ("queue_offset",))
    first = next(found)
    mq.restart()
    assert [row["queue_offset"] for row in rows([first, *found])] == list(range(25_000))


def test_a_damaged_record_is_an_error_or_left_out(tmp_path, caplog):
    topic = "TaskDamaged"
    with Standalone(tmp_path) as mq:
        send(mq, topic, [Message(topic, b"body of number %d." % at) for at in range(50)], queues=1)
        (log, *_) = sorted((tmp_path / "commitlog").iterdir())
        with log.open("r+b") as file:
            file.seek(log.read_bytes().index(b"body of number 20."))
            file.write(b"X")
        with pytest.raises(DataLossError, match=r"offset \d+ is damaged or lost"):
            rows(batches(mq, topic))
        found = rows(batches(mq, topic, failOnDataLoss="false"))
    assert [row["queue_offset"] for row in found] == [at for at in range(50) if at != 20]
    assert any("1 messages were left out" in text for text in caplog.messages)


def test_a_broker_that_stays_away_is_named_with_its_address(monkeypatch, tmp_path):
    topic = "TaskAway"
    monkeypatch.setattr(ranges_module, "WAITING_BYTES", 1 << 12)
    with Standalone(tmp_path) as mq:
        send(mq, topic, [[Message(topic, b"x") for _ in range(1000)] for _ in range(12)], queues=1)
        found = batches(mq, topic, ("queue_offset",), partitions="1", retryTimeout="0.5")
        next(found)
        address = mq.broker_address
    with pytest.raises(UnreachableError, match=address) as caught:
        rows(found)
    assert "the pull at offset" in caught.value.__notes__[0]

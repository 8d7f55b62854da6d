"""What needs no Spark: options, offsets, and how reads are cut into tasks."""

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.types import StructType

from mqclient.spark.options import Options
from mqclient.spark.plan import QueueRange, limited, offset_key, queue_of, split
from mqclient.spark.source import RocketMQDataSource
from mqstore.message import MessageQueue
from mqstore.spark import message_schema, wanted_schema

QUEUES = [MessageQueue("T", "broker-a", i) for i in range(4)]


def test_options_have_rocketmqs_defaults(monkeypatch):
    monkeypatch.delenv("NAMESRV_ADDR", raising=False)
    plain = Options.parse({"topic": "A, B"})
    assert (plain.nameserver, plain.topics) == (("127.0.0.1:9876",), ["A", "B"])
    assert (plain.tags, plain.queues, plain.starting) == (None, None, None)
    monkeypatch.setenv("NAMESRV_ADDR", "ns:1")
    full = Options.parse(
        {
            "topic": "A",
            "tag": "x || y",
            "queues": "0,3",
            "startingTimestamp": "2026-11-21T07:30:00Z",
            "endingOffsets": '{"b|A|0": 5}',
            "failOnDataLoss": "false",
            "maxRowsPerTrigger": "10",
            "addressMap": "172.17.0.2:10911=localhost:1, b:2=c:3",
        }
    )
    assert full.nameserver == ("ns:1",)
    assert (full.tags, full.queues) == ({"x", "y"}, {0, 3})
    assert (full.starting, full.ending) == (1795246200000, {"b|A|0": 5})
    assert (full.fail_on_data_loss, full.max_rows_per_trigger) == (False, 10)
    assert full.address_map == {"172.17.0.2:10911": "localhost:1", "b:2": "c:3"}


@pytest.mark.parametrize(
    "option",
    [
        {"queues": "a"},
        {"startingOffsets": "yesterday"},
        {"startingOffsets": "[1]"},
        {"startingTimestamp": "noon"},
        {"startingOffsets": "latest", "startingTimestamp": "5"},
        {"failOnDataLoss": "maybe"},
        {"partitions": "0"},
        {"maxRowsPerTrigger": "many"},
        {"timeout": "-1"},
        {"addressMap": "somewhere"},
        {"nameserver": "host:port"},
    ],
)
def test_a_bad_option_is_named(option):
    with pytest.raises(ValueError, match=next(iter(option)).removeprefix("starting")):
        Options.parse(option)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("ns", ("ns:9876",)),
        ("a:1;b", ("a:1", "b:9876")),
        ("a:1, b:2", ("a:1", "b:2")),
        ("http://jmenv:8080/rocketmq/nsaddr", ("http://jmenv:8080/rocketmq/nsaddr",)),
    ],
)
def test_a_nameserver_is_read_as_by_every_client(text, addresses):
    assert Options.parse({"nameserver": text}).nameserver == addresses


def test_offset_keys_there_and_back():
    queue = MessageQueue("%RETRY%g|1", "broker-a", 12)
    assert queue_of(offset_key(queue)) == queue
    with pytest.raises(ValueError, match="broker"):
        queue_of("nonsense")
    assert Options.parse({}).address_map == {}


def test_tasks_cover_every_row_once_and_evenly():
    ranges = [
        QueueRange(q, 5, 5 + rows) for q, rows in zip(QUEUES, (90_000, 3, 0, 30_000), strict=True)
    ]
    tasks = split(ranges, 8)
    assert len(tasks) == 8
    sizes = [sum(piece.rows for piece in task) for task in tasks]
    assert sum(sizes) == 120_003
    assert max(sizes) - min(sizes) <= len(tasks)
    covered = {}
    for piece in (piece for task in tasks for piece in task):
        assert piece.first == covered.get(piece.queue, 5)
        covered[piece.queue] = piece.end
    assert covered == {r.queue: r.end for r in ranges if r.rows}
    assert split(ranges, 8) == tasks
    assert len(split([QueueRange(QUEUES[0], 0, 10)], 8)) == 1
    assert split([QueueRange(QUEUES[0], 3, 3)], 8) == []


def test_a_limit_is_shared_by_what_is_behind():
    start = {"a": 0, "b": 10, "c": 7}
    end = {"a": 1000, "b": 10, "c": 1007}
    assert limited(start, end, 5000) == end
    assert limited(start, end, 100) == {"a": 50, "b": 10, "c": 57}
    assert sum(limited(start, end, 1).values()) == sum(start.values()) + 1
    assert limited({"a": 5}, {"a": 3}, 1) == {"a": 3}


def test_schemas_are_checked_before_any_task_runs():
    assert wanted_schema(message_schema()).names == message_schema().names
    with pytest.raises(ValueError, match="no column 'nonsense'"):
        wanted_schema(StructType().add("nonsense", "string"))
    with pytest.raises(ValueError, match="'queue_id' is int, not string"):
        wanted_schema(StructType().add("queue_id", "string"))


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ({"text": "string"}, {"topic": "T"}, "no column 'text'"),
        ({"tags": "string"}, {"topic": "T"}, 'needs a column "body"'),
        ({"body": "integer"}, {"topic": "T"}, "must be binary or string, not int"),
        ({"body": "binary"}, {}, "say where to write"),
    ],
)
def test_a_frame_that_cannot_be_written_is_refused(columns, options, words):
    schema = StructType()
    for name, kind in columns.items():
        schema.add(name, kind)
    source = RocketMQDataSource(options)
    for writer in (source.writer, source.streamWriter):
        with pytest.raises(ValueError, match=words):
            writer(schema, False)
    with pytest.raises(ValueError, match="only ever appended"):
        source.writer(StructType().add("body", "binary"), True)

"""What needs no Spark: offsets, and how reads are cut into tasks."""

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.types import StructType

from mqcommon.message import MessageQueue
from mqpipeline.spark.files import message_schema, wanted_schema
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.plan import QueueRange, limited, offset_key, queue_of, split
from mqpipeline.spark.topics.source import RocketMQDataSource

QUEUES = [MessageQueue("T", "broker-a", i) for i in range(4)]


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
    assert Options.parse({"namesrv": text}).namesrv == addresses


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


def test_a_queue_that_is_larger_than_the_others_is_split():
    skewed = [QueueRange(QUEUES[0], 0, 1000), QueueRange(QUEUES[1], 0, 10)]
    assert len(split(skewed, 8)) == 1
    tasks = split(skewed, 8, tasks_min=6)
    assert [sum(piece.rows for piece in task) for task in tasks] == [168, 168, 169, 168, 168, 169]
    assert len(split([QueueRange(QUEUES[0], 0, 3)], 8, tasks_min=6)) == 3
    assert [len(split(skewed, 2, tasks_min=2, rows_max=most)) for most in (2000, 505, 1)] == [
        2,
        2,
        1010,
    ]
    assert max(sum(p.rows for p in task) for task in split(skewed, 2, rows_max=7)) <= 7


def test_a_limit_is_shared_by_what_is_behind():
    start = {"a": 0, "b": 10, "c": 7}
    end = {"a": 1000, "b": 10, "c": 1007}
    assert limited(start, end, 5000) == end
    assert limited(start, end, 100) == {"a": 50, "b": 10, "c": 57}
    assert sum(limited(start, end, 1).values()) == sum(start.values()) + 1
    assert limited({"a": 5}, {"a": 3}, 1) == {"a": 3}


def test_a_small_queue_does_not_wait_for_the_large_ones():
    start = {"a": 0, "b": 0, "c": 0}
    assert limited(start, {"a": 1_000_000, "b": 900_000, "c": 1}, 100) == {"a": 52, "b": 47, "c": 1}


def test_a_limit_may_count_bytes():
    start = {"a": 0, "b": 10}
    end = {"a": 1000, "b": 1010}
    sizes = {"a": 10, "b": 1000}
    some = limited(start, end, 50_000, sizes.__getitem__)
    moved = {key: some[key] - start[key] for key in some}
    assert sum(moved[key] * sizes[key] for key in moved) <= 50_000
    assert moved["b"] == 49 and moved["a"] >= 49
    assert limited(start, end, 1, sizes.__getitem__) == {"a": 1, "b": 10}
    assert limited({"b": 5}, {"b": 5}, 1, sizes.__getitem__) == {"b": 5}


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

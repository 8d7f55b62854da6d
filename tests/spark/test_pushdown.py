"""Conditions that a read takes from `.where()`: the pruned ranges, and the rest for Spark."""

from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.datasource import (
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from mqcommon.wire.codes import RequestCode
from mqpipeline.spark.files import message_schema
from mqpipeline.spark.topics.batch import BatchReader
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.pushdown import PushdownReader
from mqpipeline.spark.topics.source import RocketMQDataSource
from mqstore.arrow import arrow_schema
from tests.spark.scripted import Broker, use
from tests.spark.test_batch_reader import TimedBroker

OFFSET, QUEUE, TIME, TAGS, TOPIC = (
    (name,) for name in ("queue_offset", "queue_id", "store_timestamp", "tags", "topic")
)


def planned(monkeypatch, filters, broker=None, **options):
    """The filters left to Spark, and (queue, first, end) of each planned range."""
    broker = broker or Broker(100, 200)
    changes = {RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: getattr(broker, "search", None)}
    use(monkeypatch, broker, changes)
    parsed = Options.parse({"namesrv": "ns:9876", "topic": "T", **options}, "batch")
    reader = PushdownReader(arrow_schema(["body"]), parsed)
    left = list(reader.pushFilters(filters))
    pieces = [piece for task in reader.partitions() for piece in task.ranges]
    return left, [(piece.queue.queue_id, piece.first, piece.end) for piece in pieces]


@pytest.mark.parametrize(
    ("filters", "ranges"),
    [
        ([], [(0, 100, 200), (1, 100, 200)]),
        ([EqualTo(QUEUE, 1), IsNotNull(QUEUE)], [(1, 100, 200)]),
        ([In(QUEUE, (1, 7))], [(1, 100, 200)]),
        ([LessThan(QUEUE, 1), EqualTo(OFFSET, 150)], [(0, 150, 151)]),
        ([GreaterThan(OFFSET, 150), LessThanOrEqual(OFFSET, 151)], [(0, 151, 152), (1, 151, 152)]),
        ([GreaterThanOrEqual(OFFSET, 150), LessThan(OFFSET, 150)], []),
        ([GreaterThan(OFFSET, 10_000)], []),
        ([EqualTo(TOPIC, "T"), EqualTo(QUEUE, 0)], [(0, 100, 200)]),
        ([EqualTo(TOPIC, "U")], []),
        ([EqualTo(TAGS, "TagA"), EqualTo(QUEUE, 0)], [(0, 100, 200)]),
    ],
)
def test_conditions_that_a_read_applies_exactly(monkeypatch, filters, ranges):
    assert planned(monkeypatch, filters) == ([], ranges)


@pytest.mark.parametrize(
    "condition",
    [
        In(OFFSET, (150, 160)),
        Not(EqualTo(QUEUE, 0)),
        EqualTo(("keys",), "a"),
        EqualTo(("properties", "queue_id"), 1),
        EqualTo(TAGS, "A || B"),
        EqualTo(TAGS, "*"),
        IsNotNull(TAGS),
        GreaterThan(TAGS, "a"),
        GreaterThan(TIME, datetime(2026, 3, 29, 2, 30)),  # a time of the session
    ],
)
def test_other_conditions_are_left_to_spark_and_prune_nothing(monkeypatch, condition):
    left, ranges = planned(monkeypatch, [condition])
    assert len(left) == 1 and left[0] is condition
    assert ranges == [(0, 100, 200), (1, 100, 200)]


def test_times_prune_and_are_left_to_spark(monkeypatch):
    """Ten messages have the same millisecond, from 1000 on."""
    start = datetime.fromtimestamp(0, UTC)

    def at(milliseconds):
        return start + timedelta(milliseconds=milliseconds)

    for conditions, span in [
        ([GreaterThanOrEqual(TIME, at(1004))], (40, 95)),
        ([GreaterThan(TIME, at(1004))], (50, 95)),
        ([GreaterThanOrEqual(TIME, at(1003.5))], (40, 95)),
        ([LessThan(TIME, at(1004))], (20, 40)),
        ([LessThanOrEqual(TIME, at(1004))], (20, 50)),
        ([LessThan(TIME, at(1003.5))], (20, 40)),
        ([EqualTo(TIME, at(1004))], (40, 50)),
    ]:
        left, ranges = planned(monkeypatch, conditions, TimedBroker(20, 95), queues="0")
        assert left == conditions
        assert ranges == [(0, *span)], conditions


def test_tags_join_no_other_filter_of_the_pull(monkeypatch):
    wanted = EqualTo(TAGS, "B")
    assert planned(monkeypatch, [wanted], tags="A || B")[0] == [wanted]


def test_without_the_option_there_is_nothing_to_push():
    options = {"namesrv": "ns", "topic": "T"}
    plain = RocketMQDataSource(options).reader(message_schema())
    assert type(plain) is BatchReader
    assert type(plain).pushFilters is BatchReader.__mro__[1].pushFilters
    pushing = RocketMQDataSource({**options, "pushdown": "true"}).reader(message_schema())
    assert isinstance(pushing, PushdownReader)

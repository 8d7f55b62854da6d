"""Times without a zone are in the session's zone, also when clocks change to summer time."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from mqclient import Message, Producer
from mqserver import Standalone

BERLIN, NEW_YORK = "Europe/Berlin", "America/New_York"
SPRING = datetime(2026, 3, 29, tzinfo=UTC)
AUTUMN = datetime(2026, 10, 25, tzinfo=UTC)
"""An hour before clocks change in Berlin, by an hour; there are none of New York near by."""
MOMENTS = [day + timedelta(minutes=30 * n) for day in (SPRING, AUTUMN) for n in range(6)]
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def mq():
    with Standalone(process=True) as mq:
        yield mq


@pytest.fixture(scope="module")
def born(mq):
    """A topic with a message that was born at each moment."""
    topic = mq.topic("SparkZones", queues=1)
    with Producer(mq.namesrv) as producer:
        for number, moment in enumerate(MOMENTS):
            message = Message(topic, b"%d" % number)
            message.born_timestamp_ms = int(moment.timestamp() * 1000)
            producer.send(message)
    mq.wait_dispatched()
    return topic


@pytest.fixture(params=[BERLIN, NEW_YORK])
def zone(spark, request):
    """The session's time zone."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield ZoneInfo(request.param)
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.fixture(params=["false", "true"])
def pushdown(spark, request):
    spark.conf.set(PUSHDOWN, request.param)
    yield request.param
    spark.conf.unset(PUSHDOWN)


def rows(spark, mq, topic, condition="true", **options):
    """Number, time of birth and of storage (ms) of the rows that a condition leaves."""
    reader = spark.read.format("rocketmq").option("namesrv", mq.namesrv).option("topic", topic)
    frame = reader.options(**options).load().where(condition).selectExpr(
        "int(string(body)) n", "unix_millis(born_timestamp) born",
        "unix_millis(store_timestamp) stored",
    )  # fmt: skip
    return sorted(tuple(row) for row in frame.collect())


def test_columns_are_moments_in_every_zone(spark, mq, born, zone):
    found = rows(spark, mq, born)
    assert [datetime.fromtimestamp(ms / 1000, UTC) for _, ms, _ in found] == MOMENTS


@pytest.mark.parametrize(
    "wall",
    [
        "2026-03-29 01:30:00",
        "2026-03-29 02:30:00",  # does not exist in Berlin
        "2026-03-29 03:30:00",
        "2026-10-25 02:30:00",  # exists twice in Berlin: the first one counts
        "2026-10-25 03:00:00",
        "2026-03-28 20:30:00",  # New York
    ],
)
def test_a_condition_means_the_time_of_the_session(spark, mq, born, zone, pushdown, wall):
    start = datetime.fromisoformat(wall).replace(tzinfo=zone)
    found = rows(spark, mq, born, f"born_timestamp >= '{wall}'", pushdown=pushdown)
    assert [n for n, _, _ in found] == [n for n, m in enumerate(MOMENTS) if m >= start]


def test_a_pushed_condition_leaves_the_rows_that_spark_leaves(spark, mq, born, zone, pushdown):
    everything = rows(spark, mq, born)
    middle_ms = everything[len(everything) // 2][2]
    middle = datetime.fromtimestamp(middle_ms / 1000, zone)
    wall = middle.replace(tzinfo=None).isoformat(" ", "milliseconds")
    for test in (">=", "<"):
        found = rows(spark, mq, born, f"store_timestamp {test} '{wall}'", pushdown=pushdown)
        wanted = [r for r in everything if (r[2] >= middle_ms) == (test == ">=")]
        assert found == wanted, test


def test_a_starting_time_says_its_zone(spark, mq, born, zone):
    moment = datetime.fromtimestamp(rows(spark, mq, born)[5][2] / 1000, zone)
    text = moment.isoformat()
    wanted = [r for r in rows(spark, mq, born) if r[2] >= moment.timestamp() * 1000]
    assert rows(spark, mq, born, startingTimestamp=text) == wanted
    with pytest.raises(Exception, match="say which time zone"):
        rows(spark, mq, born, startingTimestamp=text[:-6])

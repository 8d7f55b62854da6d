"""Offsets of the streaming read: what Spark is told, without Spark."""

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from mqclient import retries
from mqclient.errors import UnreachableError
from mqclient.mock import MockTransport
from mqclient.spark import reader as reader_module
from mqclient.spark.cluster import Cluster, DataLossError
from mqclient.spark.options import Options
from mqclient.spark.reader import StreamReader
from mqclient.wire.codes import RequestCode
from mqstore.arrow import arrow_schema
from tests.spark.scripted import Broker

A, B = "broker-a|T|0", "broker-a|T|1"


@pytest.fixture
def broker(monkeypatch):
    """Both queues of topic T hold [100, 200); retries do not pause."""
    broker = Broker(100, 200)
    broker.changes = {}
    monkeypatch.setattr(retries, "FIRST_PAUSE_S", 0)
    monkeypatch.setattr(
        reader_module,
        "Cluster",
        lambda options: Cluster(options, MockTransport(broker.scripts() | broker.changes)),
    )
    return broker


def stream(**options):
    given = {"nameserver": "ns:9876", "topic": "T", **options}
    return StreamReader(arrow_schema(["body"]), Options.parse(given))


def rows(tasks):
    return sorted((p.queue.queue_id, p.first, p.end) for task in tasks for p in task.ranges)


def test_a_latest_start_is_resolved_once(broker):
    reader = stream()
    assert reader.initialOffset() == {A: 200, B: 200}
    broker.end = 300
    assert reader.initialOffset() == {A: 200, B: 200}
    assert stream(startingOffsets="earliest").initialOffset() == {A: 100, B: 100}
    assert stream(startingOffsets=f'{{"{A}": 150}}').initialOffset() == {A: 150, B: 100}


def test_nothing_new_gives_back_the_very_start(broker):
    start = {B: 200, A: 200}
    assert stream().latestOffset(start, ReadAllAvailable()) is start


def test_a_limit_moves_on_by_so_many_rows_with_sorted_keys(broker):
    reader = stream(maxRowsPerTrigger="50")
    assert reader.getDefaultReadLimit() == ReadMaxRows(50)
    end = reader.latestOffset({B: 100, A: 100}, reader.getDefaultReadLimit())
    assert list(end.items()) == [(A, 125), (B, 125)]
    assert rows(reader.partitions({A: 100, B: 100}, end)) == [(0, 100, 125), (1, 100, 125)]
    assert reader.reportLatestOffset() == {A: 200, B: 200}
    assert isinstance(stream().getDefaultReadLimit(), ReadAllAvailable)


def test_a_new_queue_begins_at_its_minimum_even_under_a_limit(broker):
    reader = stream()
    end = reader.latestOffset({A: 200}, ReadMaxRows(10))
    assert end == {A: 200, B: 110}
    assert rows(reader.partitions({A: 200}, end)) == [(1, 100, 110)]


def test_a_broker_that_is_away_keeps_its_place(broker):
    broker.changes = {RequestCode.GET_MAX_OFFSET: lambda *_: UnreachableError("gone")}
    start = {A: 150, B: 160}
    assert stream().latestOffset(start, ReadAllAvailable()) is start
    with pytest.raises(ConnectionError, match="no answer from the broker of 2 queues"):
        stream().initialOffset()


def test_available_now_stops_at_what_was_there(broker):
    reader = stream()
    reader.prepareForTriggerAvailableNow()
    broker.end = 900
    assert reader.latestOffset({A: 100, B: 100}, ReadMaxRows(60)) == {A: 130, B: 130}
    assert reader.latestOffset({A: 130, B: 130}, ReadAllAvailable()) == {A: 200, B: 200}
    done = {A: 200, B: 200}
    assert reader.latestOffset(done, ReadAllAvailable()) is done


def test_a_queue_that_went_back_is_data_loss(broker):
    with pytest.raises(DataLossError, match="ends at 200, but was read up to 500"):
        stream().latestOffset({A: 500, B: 200}, ReadAllAvailable())
    start = {A: 500, B: 200}
    lenient = stream(failOnDataLoss="false")
    assert lenient.latestOffset(start, ReadAllAvailable()) is start
    assert lenient.partitions(start, start) == []


def test_only_new_offsets_are_planned_and_nothing_is_held(broker):
    reader = stream()
    tasks = reader.partitions({A: 190, B: 200}, {A: 200, B: 200})
    assert rows(tasks) == [(0, 190, 200)]
    assert list(reader.read(None)) == []
    reader.commit({A: 200})
    reader.stop()

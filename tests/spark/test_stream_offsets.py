"""Offsets of the streaming read, as Spark gets them, without Spark."""

import json

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from mqclient.errors import NoRouteError, UnreachableError
from mqcommon.wire import Frame
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqpipeline.spark.topics import survey
from mqpipeline.spark.topics.cluster import DataLossError
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.stream import StreamReader
from mqstore.arrow import arrow_schema
from tests.spark.scripted import RECORD, Broker, Served, use

A, B = "broker-a|T|0", "broker-a|T|1"


@pytest.fixture
def broker(monkeypatch):
    """Both queues of topic T hold [100, 200)."""
    broker = Broker(100, 200)
    broker.changes = {}
    broker.sent = use(monkeypatch, broker, broker.changes)
    return broker


def stream(**options):
    given = {"namesrv": "ns:9876", "topic": "T", "retryTimeout": "0.01", **options}
    if "topicPattern" in given:
        del given["topic"]
    return StreamReader(arrow_schema(["body"]), Options.parse(given, "stream"))


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
    broker.changes[RequestCode.GET_TOPIC_STATS_INFO] = lambda *_: UnreachableError("gone")
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


def test_a_queue_that_is_not_readable_any_more_is_named(broker, caplog):
    start = {A: 200, B: 200, "broker-a|T|2": 150, "broker-a|T|3": 200}
    told = r"checkpoint .* broker-a\|T\|2 \(50 messages\); .* -r 3 .* failOnDataLoss to false"
    with pytest.raises(DataLossError, match=told):
        stream().latestOffset(start, ReadAllAvailable())
    reader = stream(failOnDataLoss="false")
    for _ in range(2):
        assert reader.latestOffset(start, ReadAllAvailable()) is start
    assert caplog.text.count("broker-a|T|2 (50 messages)") == 1
    whole = {**start, "broker-a|T|2": 200}
    assert stream().latestOffset(whole, ReadAllAvailable()) is whole


def test_a_queue_that_went_back_is_reread_if_loss_is_allowed(broker, caplog):
    broker.first = 0
    start = {A: 500, B: 200}
    reader = stream(failOnDataLoss="false", startingOffsets="earliest")
    end = reader.latestOffset(start, ReadAllAvailable())
    assert end == {A: 200, B: 200}
    assert rows(reader.partitions(start, end)) == [(0, 0, 200)]
    assert "the query will read the queue from its first message" in caplog.text
    assert reader.latestOffset(start, ReadMaxRows(50)) == {A: 50, B: 200}
    assert rows(reader.partitions(start, {A: 50, B: 200})) == [(0, 0, 50)]
    assert rows(reader.partitions({A: 50, B: 200}, {A: 100, B: 200})) == [(0, 50, 100)]


def test_retention_that_overtakes_a_query_is_data_loss(broker, caplog):
    start = {A: 20, B: 150}
    with pytest.raises(DataLossError, match="begins at 100, but was read only up to 20"):
        stream().latestOffset(start, ReadAllAvailable())
    reader = stream(failOnDataLoss="false")
    end = reader.latestOffset(start, ReadMaxRows(30))
    assert end == {A: 120, B: 160}  # 100 and 50 are there
    assert "begins at 100, but was read only up to 20" in caplog.text
    tasks = reader.partitions(start, end)
    with Served(broker) as served:
        reader = StreamReader(arrow_schema(["body"]), served.options(failOnDataLoss="false"))
        assert sum(batch.num_rows for task in tasks for batch in reader.read(task)) == 30


def test_a_late_slave_tells_nothing_of_losses(broker):
    broker.address, broker.slave = None, broker.address
    start = {A: 500, B: 150}
    assert stream().latestOffset(start, ReadAllAvailable()) == {A: 500, B: 200}


def test_a_topic_whose_route_is_gone_keeps_its_offsets(broker, caplog):
    reader = stream()
    start = {A: 150, B: 160}
    broker.changes[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda *_: Frame(
        ResponseCode.TOPIC_NOT_EXIST
    )
    for _ in range(2):
        assert reader.latestOffset(start, ReadAllAvailable()) is start
    assert caplog.text.count("topic T has no route now; its offsets stay") == 1
    with pytest.raises(NoRouteError, match="no route for topic 'T'"):
        stream().initialOffset()


def test_a_restart_of_the_name_server_is_waited_for(broker, monkeypatch):
    monkeypatch.setattr(survey, "PAUSE_FIRST_S", 0.0)
    left = [UnreachableError("gone")] * 12

    def restarting(address, request):
        return left.pop() if left else broker.route(address, request)

    broker.changes[RequestCode.GET_ROUTEINFO_BY_TOPIC] = restarting
    reader = stream(retryTimeout="30")
    assert reader.latestOffset({A: 100, B: 100}, ReadAllAvailable()) == {A: 200, B: 200}
    left += [UnreachableError("gone")] * 12
    assert reader.initialOffset() == {A: 200, B: 200}
    broker.changes[RequestCode.GET_ROUTEINFO_BY_TOPIC] = lambda *_: UnreachableError("gone")
    with pytest.raises(UnreachableError, match="no NameServer answers"):
        stream().latestOffset({A: 100}, ReadAllAvailable())


@pytest.mark.parametrize("starting", ["latest", "group:g"])
def test_the_first_micro_batch_of_a_start_that_moves_is_empty(broker, starting):
    """Spark keeps where a micro-batch ends; a crash in the first one asks for the start again."""
    commits = {"offset": "120"}
    broker.changes[RequestCode.QUERY_CONSUMER_OFFSET] = lambda *_: Frame(0, commits)
    reader = stream(startingOffsets=starting)
    first = reader.initialOffset()
    assert first == ({A: 200, B: 200} if starting == "latest" else {A: 120, B: 120})
    broker.end = 300
    assert reader.latestOffset(first, ReadAllAvailable()) is first
    assert reader.partitions(first, first) == []
    crashed = stream(startingOffsets=starting)
    commits["offset"] = "110"
    again = crashed.initialOffset()
    assert again != first
    assert crashed.partitions(again, first) == []
    for query in (reader, crashed):
        assert query.latestOffset(first, ReadAllAvailable()) == {A: 300, B: 300}
        assert rows(query.partitions(first, {A: 300, B: 300}))[0][2] == 300


def test_queues_without_a_commit_start_at_the_earliest_message(broker):
    def committed(address, request):
        assert request.fields["consumerGroup"] == "old-job"
        if request.fields["queueId"] == "1":
            return Frame(ResponseCode.QUERY_NOT_FOUND)
        return Frame(0, {"offset": "170"})

    broker.changes[RequestCode.QUERY_CONSUMER_OFFSET] = committed
    assert stream(startingOffsets="group:old-job").initialOffset() == {A: 170, B: 100}
    broker.changes[RequestCode.QUERY_CONSUMER_OFFSET] = lambda *_: Frame(0, {"offset": "7"})
    with pytest.raises(DataLossError, match="offset 7 cannot be read, only 100 to 200"):
        stream(startingOffsets="group:old-job").initialOffset()


def test_a_limit_of_bytes_is_an_estimate_from_some_messages(broker):
    reader = stream(maxBytesPerTrigger=str(20 * len(RECORD)))
    assert reader.getDefaultReadLimit() == ReadMaxBytes(20 * len(RECORD))
    start = {A: 100, B: 100}
    assert reader.latestOffset(start, reader.getDefaultReadLimit()) == {A: 110, B: 110}
    tiny = stream(maxBytesPerTrigger="1")
    assert tiny.latestOffset(start, tiny.getDefaultReadLimit()) == {A: 101, B: 100}
    both = stream(maxBytesPerTrigger=str(20 * len(RECORD)), maxRowsPerTrigger="6")
    assert both.latestOffset(start, both.getDefaultReadLimit()) == {A: 103, B: 103}
    assert both.latestOffset(start, ReadAllAvailable()) == {A: 200, B: 200}


def test_topics_that_appear_later_are_found_by_the_pattern(broker):
    listed = ["T", "TBW102", "%RETRY%g", "rmq_sys_x", "broker-a", "c", "c_REPLY_TOPIC", "Other"]
    broker.changes[RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER] = lambda *_: Frame(
        0, {}, json.dumps({"topicList": listed}).encode()
    )
    reader = stream(topicPattern="[^O].*", startingOffsets="earliest")
    assert reader.initialOffset() == {A: 100, B: 100}
    listed.remove("T")
    start = reader.initialOffset()
    assert stream(topicPattern="[^O].*", startingOffsets="earliest").initialOffset() == {}
    assert reader.latestOffset(start, ReadAllAvailable()) is start
    listed.append("T")
    assert reader.latestOffset({}, ReadAllAvailable()) == {A: 200, B: 200}


def test_only_new_offsets_are_planned_and_nothing_is_held(broker):
    reader = stream()
    tasks = reader.partitions({A: 190, B: 200}, {A: 200, B: 200})
    assert rows(tasks) == [(0, 190, 200)]
    assert list(reader.read(None)) == []
    reader.commit({A: 200})
    reader.stop()

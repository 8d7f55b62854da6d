"""Which offsets a batch read plans, against a scripted broker."""

import pytest

pytest.importorskip("pyspark")

from mqclient.errors import UnreachableError
from mqcommon.message import decode_messages
from mqcommon.wire import Frame
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqpipeline.spark.topics import survey
from mqpipeline.spark.topics.batch import BatchReader
from mqpipeline.spark.topics.cluster import DataLossError
from mqpipeline.spark.topics.options import Options
from mqstore.arrow import arrow_schema
from tests.spark.scripted import Broker, Served, record, use


def options(**given):
    return Options.parse({"namesrv": "ns:9876", "topic": "T", **given})


@pytest.mark.parametrize("at", [5, 201])
def test_a_start_that_cannot_be_read_is_an_error(monkeypatch, caplog, at):
    use(monkeypatch, Broker(100, 200))
    start = f'{{"broker-a|T|1": {at}}}'
    schema = arrow_schema(["body"])
    with pytest.raises(DataLossError, match=f"topic T, .*queue 1: offset {at} .*100 to 200"):
        BatchReader(schema, options(startingOffsets=start)).partitions()
    lenient = options(startingOffsets=start, failOnDataLoss="false")
    tasks = BatchReader(schema, lenient).partitions()
    assert sum(piece.rows for task in tasks for piece in task.ranges) == (200 if at == 5 else 100)
    assert f"offset {at} cannot be read" in caplog.text


def stamped(offset):
    """Ten messages a millisecond: offset 40 is the first of time 1004."""
    plain = record(offset)
    return plain[:56] + (1000 + offset // 10).to_bytes(8, "big") + plain[64:]


class TimedBroker(Broker):
    """Searches as RocketMQ does: any one of equal times, else the nearest message."""

    def search(self, address, request):
        wanted = int(request.fields["timestamp"])
        low, high, left = self.first, self.end - 1, -1
        while low <= high:
            middle = (low + high) // 2
            time = 1000 + middle // 10
            if time == wanted:
                return Frame(0, {"offset": str(middle)})
            low, high = (middle + 1, high) if time < wanted else (low, middle - 1)
            left = middle if time < wanted else left
        return Frame(0, {"offset": str(self.first if left < 0 else left)})

    def pull(self, address, request):
        reply = super().pull(address, request)
        if reply.code != ResponseCode.SUCCESS:
            return reply
        messages = decode_messages(reply.body)
        body = b"".join(stamped(message.queue_offset) for message in messages)
        return self.answer(0, messages[-1].queue_offset + 1, body)


@pytest.mark.parametrize(
    ("time", "first"), [(0, 20), (1002, 20), (1004, 40), (1009, 90), (1010, 95), (9999, 95)]
)
def test_a_starting_time_gives_all_messages_from_it_on(monkeypatch, time, first):
    broker = TimedBroker(20, 95)
    use(monkeypatch, broker, {RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: broker.search})
    parsed = options(startingTimestamp=str(time), queues="0")
    tasks = BatchReader(arrow_schema(["body"]), parsed).partitions()
    assert [piece.first for task in tasks for piece in task.ranges] == (
        [first] if first < 95 else []
    )


def test_planning_waits_for_a_restart(monkeypatch):
    monkeypatch.setattr(survey, "PAUSE_FIRST_S", 0.0)
    broker = Broker(0, 10)
    left = [UnreachableError("gone")] * 12
    changes = {
        RequestCode.GET_TOPIC_STATS_INFO: lambda *asked: (
            left.pop() if left else broker.stats(*asked)
        )
    }
    use(monkeypatch, broker, changes)
    reader = BatchReader(arrow_schema(["body"]), options(retryTimeout="30"))
    assert sum(piece.rows for task in reader.partitions() for piece in task.ranges) == 20
    changes[RequestCode.GET_TOPIC_STATS_INFO] = lambda *_: UnreachableError("gone")
    impatient = BatchReader(arrow_schema(["body"]), options(retryTimeout="0.01"))
    with pytest.raises(ConnectionError, match="no answer from the broker of 2 queues"):
        impatient.partitions()


def test_a_topic_of_a_name_server_without_brokers_is_waited_for(monkeypatch):
    use(
        monkeypatch,
        Broker(0, 10),
        {
            RequestCode.GET_ROUTEINFO_BY_TOPIC: lambda *_: Frame(ResponseCode.TOPIC_NOT_EXIST),
            RequestCode.GET_BROKER_CLUSTER_INFO: lambda *_: Frame(0, {}, b"{}"),
        },
    )
    reader = BatchReader(arrow_schema(["body"]), options(retryTimeout="0.01"))
    with pytest.raises(ConnectionError, match="no broker is registered at NameServer ns:9876"):
        reader.partitions()


def test_an_unreachable_broker_does_not_mean_start_at_earliest(monkeypatch):
    changes = {RequestCode.SEARCH_OFFSET_BY_TIMESTAMP: lambda *_: UnreachableError("gone")}
    use(monkeypatch, Broker(0, 10), changes)
    late = options(startingTimestamp="5", retryTimeout="0.01")
    with pytest.raises(ConnectionError, match="no answer from the broker"):
        BatchReader(arrow_schema(["body"]), late).partitions()


def test_queues_that_json_leaves_out_are_read_whole(monkeypatch):
    use(monkeypatch, Broker(100, 200))
    some = options(
        startingOffsets='{"T": {"broker-a": {"0": 150}}}', endingOffsets='{"broker-a|T|1": 120}'
    )
    pieces = [
        p for task in BatchReader(arrow_schema(["body"]), some).partitions() for p in task.ranges
    ]
    assert [(p.queue.queue_id, p.first, p.end) for p in pieces] == [(0, 150, 200), (1, 100, 120)]


def test_a_pattern_without_a_topic_is_an_error(monkeypatch):
    listed = {RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER: lambda *_: Frame(0, {}, b"{}")}
    use(monkeypatch, Broker(0, 10), listed)
    parsed = Options.parse({"namesrv": "ns", "topicPattern": "T.*"}, "batch")
    with pytest.raises(ValueError, match=r"topicPattern = 'T\.\*': no topic matches"):
        BatchReader(arrow_schema(["body"]), parsed).partitions()


def test_a_filter_is_checked_by_the_broker_and_sent_per_pull():
    answers = [Frame(0), Frame(ResponseCode.SYSTEM_ERROR, remark="does not support SQL92")]
    pulls = []

    class Filtering(Broker):
        def pull(self, address, request):
            pulls.append((request.fields["subscription"], request.fields["expressionType"]))
            return super().pull(address, request)

    check = {RequestCode.CHECK_CLIENT_CONFIG: lambda *_: answers.pop(0)}
    with Served(Filtering(0, 10), check) as served:
        parsed = served.options(filter="a > 5", queues="0")
        reader = BatchReader(arrow_schema(["queue_offset"]), parsed)
        (task,) = reader.partitions()
        rows = [at for batch in reader.read(task) for at in batch[0].to_pylist()]
        assert rows == list(range(10)) and set(pulls) == {("a > 5", "SQL92")}
        with pytest.raises(ValueError, match=r"broker broker-a refuses it: .*enablePropertyFilter"):
            BatchReader(arrow_schema(["body"]), parsed).partitions()

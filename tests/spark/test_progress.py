"""A group's offsets committed by a query, against a scripted broker."""

import json

import pytest

pytest.importorskip("pyspark")
from pyspark.sql.streaming.datasource import ReadAllAvailable

from mqclient.errors import UnreachableError
from mqcommon.wire import Frame
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.progress import GroupInUseError
from mqpipeline.spark.topics.stream import StreamReader
from mqstore.arrow import arrow_schema
from tests.spark.scripted import Broker, use

A, B = "broker-a|T|0", "broker-a|T|1"
MEMBER = {"connectionSet": [{"clientId": "10.0.0.1@7", "clientAddr": "10.0.0.1:5"}]}


class Group:
    """A group at the scripted broker: its live consumers, its offsets, its retry topic."""

    def __init__(self):
        self.members = None
        self.offsets = {}
        self.topics = []

    def scripts(self):
        return {
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.connections,
            RequestCode.UPDATE_CONSUMER_OFFSET: self.commit,
            RequestCode.UPDATE_AND_CREATE_TOPIC: self.make,
        }

    def connections(self, address, request):
        assert request.fields["consumerGroup"] == "job"
        if self.members is None:
            return Frame(ResponseCode.CONSUMER_NOT_ONLINE, remark="not online")
        return Frame(0, {}, json.dumps(self.members).encode())

    def commit(self, address, request):
        fields = request.fields
        assert (fields["consumerGroup"], fields["topic"]) == ("job", "T")
        self.offsets[int(fields["queueId"])] = int(fields["commitOffset"])
        return Frame(0)

    def make(self, address, request):
        self.topics.append(request.fields["topic"])
        return Frame(0)


@pytest.fixture
def group(monkeypatch):
    group = Group()
    group.changes = group.scripts()
    use(monkeypatch, Broker(100, 200), group.changes)
    return group


def stream(**more):
    given = {"namesrv": "ns", "topic": "T", "group": "job", "commitGroup": "true", **more}
    return StreamReader(arrow_schema(["body"]), Options.parse(given, "stream"))


def test_offsets_are_committed_and_the_group_is_made_visible(group):
    reader = stream()
    reader.commit({A: 150, B: 160})
    assert group.offsets == {0: 150, 1: 160}
    assert group.topics == ["%RETRY%job"]
    group.offsets.clear()
    reader.commit({A: 150, B: 170})
    assert group.offsets == {1: 170}
    assert group.topics == ["%RETRY%job"]


def test_live_consumers_are_refused_at_the_start_and_later(group):
    reader = stream()
    start = reader.initialOffset()
    reader.commit(start)
    group.members = MEMBER
    with pytest.raises(GroupInUseError, match=r"'job' has 1 live consumers, first 10\.0\.0\.1@7"):
        reader.commit({A: 201, B: 200})
    assert group.offsets == {0: 200, 1: 200}
    for begin in (
        lambda: stream().initialOffset(),
        lambda: stream().latestOffset({A: 100, B: 100}, ReadAllAvailable()),
    ):
        with pytest.raises(GroupInUseError):
            begin()


def test_a_broker_that_is_away_gets_the_next_offsets(group, caplog):
    reader = stream()
    working = group.changes[RequestCode.UPDATE_CONSUMER_OFFSET]
    group.changes[RequestCode.UPDATE_CONSUMER_OFFSET] = lambda *_: UnreachableError("gone")
    reader.commit({A: 150, B: 160})
    assert "the offsets of 2 queues were not committed" in caplog.text
    group.changes[RequestCode.UPDATE_CONSUMER_OFFSET] = working
    reader.commit({A: 150, B: 170})
    assert group.offsets == {0: 150, 1: 170}


def test_offsets_are_stored_if_the_group_cannot_be_made_visible(group, caplog):
    group.changes[RequestCode.UPDATE_AND_CREATE_TOPIC] = lambda *_: Frame(
        ResponseCode.NO_PERMISSION, remark="not an admin"
    )
    stream().commit({A: 150})
    assert group.offsets == {0: 150}
    assert "its retry topic cannot be made" in caplog.text


def test_nothing_is_committed_without_the_option(group):
    reader = stream(commitGroup="false")
    reader.commit({A: 150})
    assert group.offsets == {}

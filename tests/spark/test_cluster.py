"""The pull helper under the Spark source, against scripted servers: no Spark, no sockets."""

import pytest

from mqclient.errors import BrokerError, ClientTimeout, NoRouteError, UnreachableError
from mqclient.spark import cluster as cluster_module
from mqclient.spark.cluster import DataLossError, Extent
from mqclient.wire import Frame
from mqclient.wire.codes import RequestCode, ResponseCode
from mqstore.message import MessageQueue, decode_messages
from tests.spark.scripted import QUEUE, RECORD, Broker, open_cluster, record


def offsets(cluster, first, end):
    bodies = cluster.read(QUEUE, first, end)
    return [m.queue_offset for body in bodies for m in decode_messages(body)]


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    async def at_once(_):
        return None

    monkeypatch.setattr(cluster_module.asyncio, "sleep", at_once)


@pytest.mark.parametrize("at_once", [1, 7, 32])
def test_a_range_is_read_whole_and_in_order(at_once):
    cluster, _ = open_cluster(Broker(10, 1000, at_once))
    with cluster:
        assert cluster.queues("T") == [QUEUE, MessageQueue("T", "broker-a", 1)]
        assert cluster.extents([QUEUE]) == {QUEUE: Extent(10, 1000)}
        assert offsets(cluster, 10, 1000) == list(range(10, 1000))
        assert offsets(cluster, 500, 501) == [500]
        assert offsets(cluster, 5, 5) == []


def test_lost_offsets_are_an_error_unless_allowed():
    cluster, _ = open_cluster(Broker(100, 200))
    with cluster, pytest.raises(DataLossError, match="offset 40 is gone"):
        offsets(cluster, 40, 150)
    cluster, _ = open_cluster(Broker(100, 200), failOnDataLoss="false")
    with cluster:
        assert offsets(cluster, 40, 150) == list(range(100, 150))
        assert offsets(cluster, 190, 300) == list(range(190, 200))


class Damaging(Broker):
    """Some of its records come with a flipped bit, each this number of times."""

    def __init__(self, end, at, times=99, byte=100):
        super().__init__(0, end)
        self.left, self.byte = dict.fromkeys(at, times), byte

    def pull(self, address, request):
        reply = super().pull(address, request)
        first = int(request.fields["queueOffset"])
        body = bytearray(reply.body)
        for offset in range(first, first + len(body) // len(RECORD)):
            if self.left.get(offset, 0) > 0:
                self.left[offset] -= 1
                body[(offset - first) * len(RECORD) + self.byte] ^= 1
        reply.body = bytes(body)
        return reply


class Skipping(Broker):
    """As ours: it leaves damaged messages out itself."""

    def __init__(self, end, at):
        super().__init__(0, end)
        self.at = at

    def pull(self, address, request):
        reply = super().pull(address, request)
        first = int(request.fields["queueOffset"])
        stop = int(reply.fields["nextBeginOffset"])
        reply.body = b"".join(record(at) for at in range(first, stop) if at not in self.at)
        reply.code = reply.code if reply.body else ResponseCode.PULL_RETRY_IMMEDIATELY
        return reply


@pytest.mark.parametrize(
    "broker",
    [
        lambda: Damaging(100, {40, 41, 99}),
        lambda: Damaging(100, {40, 41, 99}, byte=3),  # the size: what follows is not found
        lambda: Skipping(100, {40, 41, 99}),
    ],
    ids=["body", "size", "left out by the broker"],
)
def test_damaged_messages_are_an_error_or_left_out_with_one_warning(broker, caplog):
    cluster, _ = open_cluster(broker())
    with cluster, pytest.raises(DataLossError, match=r"offset \d+ is damaged or lost"):
        offsets(cluster, 0, 100)
    cluster, _ = open_cluster(broker(), failOnDataLoss="false")
    with cluster:
        whole = [at for at in range(100) if at not in (40, 41, 99)]
        assert offsets(cluster, 0, 100) == whole
    (warning,) = caplog.messages
    assert "3 messages were left out, first at offset" in warning


def test_the_error_names_the_offset_of_the_damaged_message():
    cluster, _ = open_cluster(Damaging(100, {41}))
    with cluster, pytest.raises(DataLossError, match="offset 41 is damaged or lost"):
        offsets(cluster, 0, 100)


def test_what_is_whole_the_second_time_is_read(caplog):
    cluster, _ = open_cluster(Damaging(100, {40, 41}, times=1))
    with cluster:
        assert offsets(cluster, 0, 100) == list(range(100))
    assert not caplog.messages


def test_a_reader_may_stop_early():
    broker = Broker(0, 100_000)
    cluster, _ = open_cluster(broker)
    with cluster:
        bodies = cluster.read(QUEUE, 0, 100_000)
        assert decode_messages(next(bodies))[0].queue_offset == 0
        bodies.close()
    assert broker.pulls < 50


def test_passing_failures_are_tried_again():
    broker = Broker(0, 10)
    failures = [UnreachableError("gone"), Frame(ResponseCode.SYSTEM_BUSY), ClientTimeout("slow")]
    pull = broker.pull

    def flaky(address, request):
        return failures.pop() if failures else pull(address, request)

    broker.pull = flaky
    cluster, _ = open_cluster(broker)
    with cluster:
        assert offsets(cluster, 0, 10) == list(range(10))
    broker.pull = lambda *_: Frame(ResponseCode.NO_PERMISSION, remark="not readable")
    cluster, _ = open_cluster(broker)
    with cluster, pytest.raises(BrokerError, match="not readable"):
        offsets(cluster, 0, 10)


def test_a_broker_that_is_away_is_told_apart_from_an_empty_one():
    broker = Broker(0, 10)
    cluster, transport = open_cluster(broker)
    transport.scripts[RequestCode.GET_MIN_OFFSET] = lambda *_: UnreachableError("gone")
    with cluster:
        assert cluster.extents([QUEUE]) == {QUEUE: None}


def test_addresses_are_mapped_and_unknown_topics_named():
    cluster, transport = open_cluster(Broker(0, 1), addressMap="172.17.0.2:10911=localhost:1")
    with cluster:
        cluster.extents([QUEUE])
        with pytest.raises(NoRouteError, match="no route for topic 'Missing'"):
            cluster.queues("Missing")
    assert {address for address, _ in transport.sent} == {"ns:9876", "localhost:1"}


def test_the_second_name_server_is_asked_when_the_first_is_away():
    broker = Broker(0, 1)
    cluster, transport = open_cluster(broker, nameserver="away:9876;ns:9876")
    route = broker.route

    def first_away(address, request):
        return UnreachableError("gone") if address.startswith("away") else route(address, request)

    transport.scripts[RequestCode.GET_ROUTEINFO_BY_TOPIC] = first_away
    with cluster:
        assert len(cluster.queues("T")) == 2

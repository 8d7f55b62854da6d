"""The Spark source's requests to brokers, against scripted servers: no Spark, no sockets."""

import pytest

from mqclient.engine import query_retry
from mqclient.errors import BrokerError, ClientTimeout, NoRouteError, UnreachableError
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqpipeline.spark.topics.cluster import Extent
from tests.address_list import AddressList
from tests.spark.scripted import QUEUE, Broker, open_cluster


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(query_retry, "FIRST_PAUSE_S", 0.0)


def test_queues_and_what_they_hold():
    cluster, _ = open_cluster(Broker(10, 1000))
    with cluster:
        assert cluster.queues("T") == [QUEUE, MessageQueue("T", "broker-a", 1)]
        assert cluster.extents([QUEUE]) == {QUEUE: Extent(10, 1000)}


def test_one_request_gets_all_queue_bounds_of_topic_and_broker():
    cluster, transport = open_cluster(Broker(10, 1000))
    queues = [QUEUE, MessageQueue("T", "broker-a", 1)]
    with cluster:
        assert cluster.extents(queues) == dict.fromkeys(queues, Extent(10, 1000))
    asked = [request.code for _, request in transport.sent]
    assert asked.count(RequestCode.GET_TOPIC_STATS_INFO) == 1
    assert RequestCode.GET_MAX_OFFSET not in asked


def test_a_queue_that_the_answer_lacks_is_asked_itself():
    cluster, transport = open_cluster(Broker(10, 1000))
    beyond = MessageQueue("T", "broker-a", 7)
    with cluster:
        assert cluster.extents([QUEUE, beyond]) == dict.fromkeys([QUEUE, beyond], Extent(10, 1000))
    asked = [request.fields for _, request in transport.sent if "queueId" in request.fields]
    assert [fields["queueId"] for fields in asked] == ["7", "7"]


def test_passing_failures_are_tried_again():
    broker = Broker(0, 10)
    cluster, transport = open_cluster(broker)
    failures = [UnreachableError("gone"), Frame(ResponseCode.SYSTEM_BUSY), ClientTimeout("slow")]
    transport.scripts[RequestCode.GET_TOPIC_STATS_INFO] = lambda *asked: (
        failures.pop() if failures else broker.stats(*asked)
    )
    with cluster:
        assert cluster.extents([QUEUE]) == {QUEUE: Extent(0, 10)}
    assert not failures


def test_a_broker_that_refuses_the_topic_is_asked_per_queue():
    cluster, transport = open_cluster(Broker(0, 10))
    refusal = Frame(ResponseCode.NO_PERMISSION, remark="not readable")
    transport.scripts[RequestCode.GET_TOPIC_STATS_INFO] = lambda *_: refusal
    with cluster:
        assert cluster.extents([QUEUE]) == {QUEUE: Extent(0, 10)}
        transport.scripts[RequestCode.GET_MAX_OFFSET] = lambda *_: refusal
        with pytest.raises(BrokerError, match="not readable"):
            cluster.extents([QUEUE])


def test_a_slave_is_told_beside_its_master():
    broker = Broker(0, 10)
    cluster, _ = open_cluster(broker)
    with cluster:
        assert cluster.addresses(QUEUE) == ("172.17.0.2:10911", None)
    broker.slave = "172.17.0.3:10911"
    cluster, _ = open_cluster(broker)
    with cluster:
        assert cluster.addresses(QUEUE) == ("172.17.0.2:10911", "172.17.0.3:10911")
    broker.address = None
    cluster, _ = open_cluster(broker)
    with cluster:
        assert cluster.addresses(QUEUE) == (None, "172.17.0.3:10911")


def test_a_broker_that_is_away_is_told_apart_from_an_empty_one():
    broker = Broker(0, 10)
    cluster, transport = open_cluster(broker)
    transport.scripts[RequestCode.GET_TOPIC_STATS_INFO] = lambda *_: UnreachableError("gone")
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
    cluster, transport = open_cluster(broker, namesrv="away:9876;ns:9876")
    route = broker.route

    def first_away(address, request):
        return UnreachableError("gone") if address.startswith("away") else route(address, request)

    transport.scripts[RequestCode.GET_ROUTEINFO_BY_TOPIC] = first_away
    with cluster:
        assert len(cluster.queues("T")) == 2


def test_an_address_server_tells_the_name_servers():
    with AddressList("ns:9876") as servers:
        cluster, transport = open_cluster(Broker(0, 1), namesrv=servers.url)
        with cluster:
            assert cluster.extents([QUEUE]) == {QUEUE: Extent(0, 1)}
    assert servers.asked == ["/rocketmq/nsaddr"]
    assert transport.sent[0][0] == "ns:9876"


def test_closing_twice_is_fine():
    cluster, _ = open_cluster(Broker(0, 1))
    cluster.close()
    cluster.close()

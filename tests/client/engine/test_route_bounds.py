"""Routes that a few bytes make huge."""

from __future__ import annotations

import pytest

from mqclient import aio as mqaio
from mqclient.errors import ProtocolError, RocketMQError
from mqcommon.message import Message
from mqcommon.wire import Frame
from mqcommon.wire.bodies.route import BrokerData, ClusterInfo, QueueData, TopicRouteData
from mqcommon.wire.calls import namesrv_calls
from tests.client.cluster import NAMESRV, Cluster


@pytest.mark.parametrize("count", [65_537, 10_000_000, 2**31 - 1, -1])
async def test_a_route_with_too_many_queues_is_an_error(count: int) -> None:
    cluster = Cluster(T=count)
    async with mqaio.Producer(NAMESRV, transport=cluster.transport) as producer:
        with pytest.raises(RocketMQError, match=f"{NAMESRV}.*{count} queues of broker"):
            await producer.send(Message("T", b"x"))


@pytest.mark.parametrize(
    ("conf", "why"),
    [
        ("broker-a:10000000", "10000000 queues of broker 'broker-a'"),
        (";".join(f"b{n}:65536" for n in range(100)), "6553600 queues of all brokers"),
        ("broker-a:-1", "must be BROKER:QUEUES"),
        ("broker-a", "must be BROKER:QUEUES"),
        ("b:1;" * 10_001, "10001 entries of orderTopicConf"),
    ],
    ids=("one broker", "all brokers", "negative", "no count", "entries"),
)
async def test_an_order_configuration_that_no_cluster_has(conf: str, why: str) -> None:
    cluster = Cluster()
    body = TopicRouteData([], [], {}, conf).to_json()
    cluster.transport.scripts[105] = lambda _address, _request: Frame(0, body=body)
    async with mqaio.Producer(NAMESRV, transport=cluster.transport) as producer:
        with pytest.raises(ProtocolError, match=f"{NAMESRV}.*{why}"):
            await producer.send(Message("T", b"x"))


def test_queues_of_all_brokers_of_a_route_are_bounded() -> None:
    rows = [QueueData(f"b{number}", 65_536, 1) for number in range(100)]
    reply = Frame(0, body=TopicRouteData([], rows).to_json())
    with pytest.raises(ProtocolError, match="6553600 queues of all brokers"):
        namesrv_calls.route("T").result(reply, "NameServer n")


@pytest.mark.parametrize(
    ("info", "why"),
    [
        (ClusterInfo({}, {f"c{n}": [] for n in range(10_001)}), "10001 clusters"),
        (ClusterInfo({}, {"C": ["b"] * 10_001}), "10001 brokers of cluster 'C'"),
        (ClusterInfo({f"b{n}": BrokerData("b") for n in range(10_001)}), "10001 broker names"),
        (
            ClusterInfo({"b": BrokerData("b", "C", dict.fromkeys(range(1001), "a:1"))}),
            "1001 addresses of broker 'b'",
        ),
    ],
    ids=("clusters", "members", "brokers", "addresses"),
)
def test_clusters_that_no_nameserver_has_are_an_error(info: ClusterInfo, why: str) -> None:
    with pytest.raises(ProtocolError, match=f"NameServer n .*{why}"):
        namesrv_calls.cluster_info().result(Frame(0, body=info.to_json()), "NameServer n")

"""NameServers in turn, routes read and remembered."""

import asyncio

import pytest

from mqclient import BrokerError, ClientTimeout, UnreachableError
from mqclient.engine.mock import MockTransport
from mqclient.engine.routes import NameServers, RouteTable, read_route
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame
from mqcommon.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from mqcommon.wire.calls import namesrv_calls
from tests.client.cluster import NAMESRV, Cluster


def queues(topic: str, *pairs: tuple[str, int]) -> tuple[MessageQueue, ...]:
    return tuple(MessageQueue(topic, name, i) for name, count in pairs for i in range(count))


def test_queues_of_a_route():
    data = TopicRouteData(
        [BrokerData("b", "C", {0: "b:1"}), BrokerData("a", "C", {1: "a:2"})],
        [QueueData("b", 2, 3, 6), QueueData("a", 1, 1, 6), QueueData("c", 4, 4, 2)],
    )
    route = read_route("T", data)
    assert route.publish == queues("T", ("b", 3)), "only brokers with a master are written to"
    assert route.subscribe == queues("T", ("a", 1), ("b", 2)), "only readable ones are read"


def test_order_configuration_decides_where_to_send():
    data = TopicRouteData([], [], {}, "broker-b:1;broker-a:2")
    route = read_route("T", data)
    assert route.publish == queues("T", ("broker-b", 1), ("broker-a", 2))
    assert route.ordered


async def test_the_next_nameserver_is_asked_and_kept():
    def answer(address, _request):
        return Frame(0, body=b"{}") if address == "b:1" else UnreachableError("no", address)

    transport = MockTransport({106: answer})
    servers = NameServers(("a:1", "b:1", "c:1"), transport)
    for _ in range(3):
        await servers.invoke(namesrv_calls.cluster_info(), 1.0)
    assert [address for address, _ in transport.sent][-2:] == ["b:1", "b:1"]


@pytest.mark.parametrize(
    ("address", "answer", "words"),
    [
        ("h:10911", Frame(3, remark="not supported"), "h:10911 is a broker, not a NameServer"),
        ("h:8081", UnreachableError("closed"), "RocketMQ 5 proxy"),
        ("h:10911", UnreachableError("refused"), "usually a broker"),
        ("h:9876", UnreachableError("refused"), "mqserver namesrv start"),
    ],
)
async def test_a_wrong_door_is_named(address, answer, words):
    servers = NameServers((address,), MockTransport({105: lambda _a, _r: answer}))
    with pytest.raises(UnreachableError, match=words):
        await servers.invoke(namesrv_calls.route("T"), 1.0)


async def test_silence_is_a_timeout_and_an_error_answer_is_an_error():
    silent = NameServers((NAMESRV,), MockTransport({105: lambda _a, _r: ClientTimeout("3 s")}))
    with pytest.raises(ClientTimeout, match="no NameServer answers"):
        await silent.invoke(namesrv_calls.route("T"), 1.0)
    broken = NameServers((NAMESRV,), MockTransport({105: lambda _a, _r: Frame(1, remark="x")}))
    with pytest.raises(BrokerError, match="NameServer"):
        await broken.invoke(namesrv_calls.route("T"), 1.0)


async def test_one_question_for_many_askers_and_changes_are_told():
    cluster = Cluster(T=2)
    table = RouteTable(NameServers((NAMESRV,), cluster.transport), 1.0)
    changed: list[str] = []
    table.on_change(changed.append)
    await asyncio.gather(*(table.get("T") for _ in range(20)))
    assert len(cluster.transport.sent) == 1
    await table.poll()
    assert changed == ["T"], "an unchanged route changes nothing"
    cluster.topics["T"] = 3
    await table.poll()
    assert changed == ["T", "T"]
    del cluster.topics["T"]
    await table.poll()
    assert len(table.known("T").subscribe) == 3, "a topic that is gone keeps its route"


async def test_broker_addresses():
    data = TopicRouteData([BrokerData("a", "C", {0: "m:1", 2: "s:2"})], [QueueData("a", 1, 1)])
    transport = MockTransport({105: lambda _a, _r: Frame(0, body=data.to_json())})
    table = RouteTable(NameServers((NAMESRV,), transport), 1.0)
    await table.get("T")
    queue = MessageQueue("T", "a", 0)
    assert table.address(queue) == "m:1"
    assert table.address(queue, 2) == "s:2"
    assert table.address(queue, 1) == "s:2", "a missing slave's successor"
    assert table.address(queue, 5) == "m:1"
    assert table.address(queue, 5, only_this=True) is None
    assert table.address(MessageQueue("T", "z", 0)) is None


async def test_no_broker_at_all_is_said():
    cluster = Cluster()
    cluster.transport.scripts[106] = lambda _a, _r: Frame(0, body=b"{}")
    table = RouteTable(NameServers((NAMESRV,), cluster.transport), 1.0)
    error = await table.no_route("X")
    assert "mqserver broker start -n 127.0.0.1:9876" in str(error)
    assert error.topic == "X"

"""Registration, liveness and removal at the NameServer, and the permission for each."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mqcommon import fastjson
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.topics import (
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from mqserver.runtime.processor_api import Response
from tests.fakes import FakeRequest
from tests.namesrv.servers import SocketlessNames


def registration(
    *,
    address: str = "127.0.0.1:10911",
    broker_id: int = 0,
    topics: tuple[str, ...] = ("T",),
    counter: int = 1,
    queues: int = 4,
    compressed: bool = False,
    **request: object,
) -> FakeRequest:
    configs = {
        topic: TopicConfig(topic, read_queue_nums=queues, write_queue_nums=queues)
        for topic in topics
    }
    body = RegisterBrokerBody(TopicConfigSerializeWrapper(configs, DataVersion(counter, 5)))
    fields = {
        "brokerName": "a",
        "brokerAddr": address,
        "clusterName": "C",
        "haServerAddr": address.replace("911", "912"),
        "brokerId": str(broker_id),
        "compressed": str(compressed).lower(),
    }
    return FakeRequest(103, fields, body.encode(compressed), **request)


def route(names: SocketlessNames, topic: str = "T") -> Any:
    reply = names(FakeRequest(105, {"topic": topic}))
    assert isinstance(reply, Response)
    return fastjson.loads(reply.body) if reply.code == 0 and reply.body else None


@pytest.fixture
def names(tmp_path: Path) -> SocketlessNames:
    return SocketlessNames(tmp_path)


@pytest.mark.parametrize("compressed", [False, True])
def test_a_registration_makes_a_route(names: SocketlessNames, compressed: bool) -> None:
    assert route(names) is None
    assert names(registration(compressed=compressed)) == Response(fields={})
    found = route(names)
    assert found is not None
    assert found["brokerDatas"] == [
        {
            "brokerAddrs": {"0": "127.0.0.1:10911"},
            "brokerName": "a",
            "cluster": "C",
            "enableActingMaster": False,
        }
    ]


def test_the_same_version_changes_nothing_and_a_new_one_does(names: SocketlessNames) -> None:
    names(registration(queues=4))
    names(registration(queues=8))
    assert route(names)["queueDatas"][0]["readQueueNums"] == 4
    names(registration(queues=8, counter=2))
    assert route(names)["queueDatas"][0]["readQueueNums"] == 8


def test_topics_absent_from_a_later_registration_stay(names: SocketlessNames) -> None:
    names(registration(topics=("T", "U")))
    names(registration(topics=("V",), counter=2))
    assert all(route(names, topic) for topic in "TUV")


def test_a_cached_route_body_is_dropped_when_the_topic_changes(
    names: SocketlessNames,
) -> None:
    names(registration())
    route(names)
    assert "105|std|T" in names.answers
    names(registration())
    assert "105|std|T" in names.answers, "an unchanged registration must not cost the cache"
    names(registration(counter=2, queues=5))
    assert "105|std|T" not in names.answers


def test_a_broker_that_is_silent_too_long_is_forgotten(names: SocketlessNames) -> None:
    names(registration(connection=7))
    names.time += 119
    assert names.names.routes.expire() == []
    names.time += 2
    assert names.names.routes.expire() == [7]
    assert route(names) is None


def test_query_data_version_keeps_an_unchanged_broker_alive(names: SocketlessNames) -> None:
    names(registration())
    names.time += 100
    fields = dict(registration().fields)
    body = DataVersion(1, 5).to_json()
    assert names(FakeRequest(322, fields, body)) == Response(fields={"changed": "false"}, body=body)
    names.time += 100
    assert names.names.routes.expire() == []


def test_a_closed_connection_takes_its_broker_away(names: SocketlessNames) -> None:
    names(registration(connection=3))
    names.names.routes.close(4, "10.0.0.9:1")
    assert route(names)
    names.names.routes.close(3, "127.0.0.1:50000")
    assert route(names) is None


def test_a_slave_learns_its_master_and_keeps_the_route_alone(names: SocketlessNames) -> None:
    names(registration())
    reply = names(registration(address="127.0.0.1:20911", broker_id=1, topics=("S",)))
    assert reply == Response(
        fields={"haServerAddr": "127.0.0.1:10912", "masterAddr": "127.0.0.1:10911"}
    )
    assert route(names, "S") is None, "a slave contributes no topics"
    names.names.routes.unregister("a", 0, "127.0.0.1:10911", "C")
    assert route(names)["brokerDatas"][0]["brokerAddrs"] == {"1": "127.0.0.1:20911"}


def test_a_slave_promoted_keeps_one_address(names: SocketlessNames) -> None:
    names(registration(broker_id=1))
    names(registration(broker_id=0))
    assert route(names)["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10911"}


def test_a_stranger_cannot_replace_a_live_broker(names: SocketlessNames) -> None:
    names(registration(remote="10.0.0.1:5000"))
    reply = names(registration(address="10.6.6.6:10911", remote="10.6.6.6:5000"))
    assert isinstance(reply, Response)
    assert reply.code == 16
    assert "a id 0 is live at 127.0.0.1:10911" in (reply.remark or "")
    moved = registration(address="10.0.0.1:20911", remote="10.0.0.1:6000")
    assert names(moved) == Response(fields={}), "the same machine may move its broker"
    names.time += 121
    late = registration(address="10.6.6.6:10911", remote="10.6.6.6:5000")
    assert names(late) == Response(fields={}), "a dead broker's name is free"


def test_a_second_broker_with_the_same_name_and_id_is_refused(
    names: SocketlessNames, caplog: pytest.LogCaptureFixture
) -> None:
    names(registration(connection=1))
    for counter in (2, 3):
        second = names(registration(address="127.0.0.1:20911", counter=counter, connection=2))
        assert isinstance(second, Response)
        assert second.code == 16
        assert names(registration(counter=counter, connection=1)) == Response(fields={})
        assert route(names)["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:10911"}
    assert "a id 0 is live at 127.0.0.1:10911; 127.0.0.1:20911" in caplog.text
    assert "two names (brokerName) or two ids (brokerId)" in caplog.text
    names.names.routes.close(1, "127.0.0.1:40000")
    names(registration(address="127.0.0.1:20911", connection=2))
    assert route(names)["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:20911"}


def test_the_same_broker_moves_to_another_address(names: SocketlessNames) -> None:
    names(registration(connection=1))
    names(registration(address="127.0.0.1:20911", counter=2, connection=1))
    assert route(names)["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:20911"}


def test_only_its_own_host_changes_or_removes_a_live_broker(names: SocketlessNames) -> None:
    names(registration(remote="10.0.0.1:5000"))
    before = route(names)
    me = {"brokerName": "a", "brokerAddr": "127.0.0.1:10911", "clusterName": "C", "brokerId": "0"}
    version = b'{"counter":1,"timestamp":1}'
    stranger = "10.6.6.6:5000"
    attacks = [
        registration(remote=stranger),
        registration(broker_id=1, remote=stranger),
        FakeRequest(104, me, remote=stranger),
        FakeRequest(104, {**me, "brokerAddr": "10.6.6.6:1"}, remote=stranger),
        FakeRequest(322, me, version, remote=stranger),
    ]
    for attack in attacks:
        reply = names(attack)
        assert isinstance(reply, Response)
        assert reply.code == 16 and "10.6.6.6" in (reply.remark or "")
        assert route(names) == before
    slave = registration(address="10.6.6.6:10911", broker_id=1, remote=stranger)
    assert isinstance(reply := names(slave), Response) and reply.code == 0, "a slave joins"
    assert names(FakeRequest(104, me, remote="10.0.0.1:6000")) == Response()
    promoted = registration(address="10.6.6.6:10911", broker_id=0, remote=stranger)
    assert isinstance(reply := names(promoted), Response) and reply.code == 0
    assert route(names)["brokerDatas"][0]["brokerAddrs"] == {"0": "10.6.6.6:10911"}


def code_of(names: SocketlessNames, request: FakeRequest) -> int:
    reply = names(request)
    assert isinstance(reply, Response)
    return reply.code


def test_a_member_takes_id_0_once_the_masters_connection_is_gone(names: SocketlessNames) -> None:
    master = registration(remote="10.0.0.1:5000", connection=3)
    promoted = registration(address="10.0.0.2:10911", remote="10.0.0.2:5000", connection=4)
    assert code_of(names, master) == 0
    slave = replace(promoted, fields={**promoted.fields, "brokerId": "1"})
    assert code_of(names, slave) == 0
    assert code_of(names, promoted) == 16, "while the master lives"
    names.names.routes.close(3, "10.0.0.1:5000")
    assert code_of(names, promoted) == 0
    assert route(names)["brokerDatas"][0]["brokerAddrs"] == {"0": "10.0.0.2:10911"}
    assert code_of(names, master) == 16, "the old master is not the master any more"
    back = replace(master, fields={**master.fields, "brokerId": "1"})
    assert code_of(names, back) == 0
    assert len(route(names)["brokerDatas"][0]["brokerAddrs"]) == 2


def test_brokers_behind_one_address_come_and_go(names: SocketlessNames) -> None:
    """Like brokers of a compose file or a container cluster behind one NAT."""
    requests = []
    for number in range(3):
        one = registration(address=f"192.168.1.{number}:10911", remote=f"10.0.0.1:{number + 4000}")
        one.fields["brokerName"] = f"b{number}"
        one.connection = number + 10
        requests.append(one)
        assert code_of(names, one) == 0
    assert len(route(names)["brokerDatas"]) == 3
    names.names.routes.close(10, "10.0.0.1:4000")
    assert {one["brokerName"] for one in route(names)["brokerDatas"]} == {"b1", "b2"}
    assert code_of(names, replace(requests[0], connection=20, remote="10.0.0.1:4444")) == 0
    assert code_of(names, replace(requests[1], code=104, body=b"")) == 0
    assert {one["brokerName"] for one in route(names)["brokerDatas"]} == {"b0", "b2"}


@pytest.mark.parametrize(
    ("remote", "allowed"),
    [
        *((f"{host}:1", True) for host in ("127.0.0.1", "10.1.2.3", "172.31.0.1", "192.168.9.9")),
        *((f"[{host}]:1", True) for host in ("fe80::1", "fd12::1", "::ffff:10.0.0.1")),
        *((f"{host}:1", False) for host in ("203.0.113.9", "172.32.0.1", "[2001:db8::1]")),
    ],
)
def test_brokers_of_public_networks_are_refused_unless_named(
    names: SocketlessNames, remote: str, allowed: bool
) -> None:
    reply = names(registration(remote=remote))
    assert isinstance(reply, Response)
    assert reply.code == (0 if allowed else 16)
    assert allowed or "brokerAllowAddresses" in (reply.remark or "")


@pytest.mark.parametrize(
    ("remote", "allowed"), [("127.0.0.1:1", True), ("10.1.2.3:1", True), ("192.0.2.1:1", False)]
)
def test_administration_and_registration_by_network(
    tmp_path: Path, remote: str, allowed: bool
) -> None:
    names = SocketlessNames(
        tmp_path, adminAllowAddresses="10.1.0.0/16", brokerAllowAddresses="10.1.0.0/16"
    )
    wipe = names(FakeRequest(205, {"brokerName": "a"}, remote=remote))
    register = names(registration(remote=remote))
    for reply, key in ((wipe, "adminAllowAddresses"), (register, "brokerAllowAddresses")):
        assert isinstance(reply, Response)
        assert reply.code == (0 if allowed else 16)
        assert allowed or key in (reply.remark or "")


def test_reading_is_for_everybody(names: SocketlessNames) -> None:
    for code in (106, 206, 319):
        reply = names(FakeRequest(code, remote="192.0.2.1:1"))
        assert isinstance(reply, Response) and reply.code == 0


def test_key_values_survive_a_restart(tmp_path: Path) -> None:
    names = SocketlessNames(tmp_path)
    names(FakeRequest(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "a:4"}))
    again = SocketlessNames(tmp_path)
    reply = again(registration())
    assert reply == Response(fields={}, body=b'{"table":{"T":"a:4"}}')


def test_routes_carry_order_configuration_only_if_enabled(names: SocketlessNames) -> None:
    names(FakeRequest(100, {"namespace": "ORDER_TOPIC_CONFIG", "key": "T", "value": "a:4"}))
    names(registration())
    assert "orderTopicConf" not in (route(names) or {})
    names(FakeRequest(318, body=b"orderMessageEnable=true"))
    assert (route(names) or {})["orderTopicConf"] == "a:4"


def test_a_broker_that_joins_moves_or_leaves_is_logged_once(
    names: SocketlessNames, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "mqserver.namesrv")
    for counter in range(3):
        names(registration(counter=counter))
    assert caplog.messages == [
        "broker a id 0 joined cluster C at 127.0.0.1:10911, registered from 127.0.0.1 with 1 topics"
    ]
    caplog.clear()
    for _ in range(2):
        names(registration(address="127.0.0.1:10921"))
    (moved,) = caplog.messages
    assert "broker a id 0 moved from 127.0.0.1:10911 to 127.0.0.1:10921" in moved
    caplog.clear()
    fields = dict(registration(address="127.0.0.1:10921").fields)
    names(FakeRequest(104, fields))
    assert caplog.messages == ["broker a id 0 at 127.0.0.1:10921 left: it unregistered"]

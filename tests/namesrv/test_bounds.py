"""Limits on the names in registrations, and the NameServer's errors beyond them."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from mqserver.runtime.processor_api import Response
from tests.fakes import FakeRequest
from tests.namesrv.servers import SocketlessNames
from tests.namesrv.test_routes import registration, route

FULL = {"brokerRegistrationMax": "3", "brokerIdMax": "2"}
FULL |= {"brokerTopicMax": "4", "topicRouteMax": "6"}


@pytest.fixture
def names(tmp_path: Path) -> SocketlessNames:
    return SocketlessNames(tmp_path, **FULL)


def register(
    names: SocketlessNames, broker: str, *, cluster: str = "C", port: int = 1, **more: object
) -> tuple[int, str]:
    request = registration(address=f"127.0.0.1:{port}", **more)  # type: ignore[arg-type]
    request.fields |= {"brokerName": broker, "clusterName": cluster}
    reply = names(request)
    assert isinstance(reply, Response)
    return reply.code, reply.remark or ""


def counts(names: SocketlessNames) -> dict[str, int]:
    return names.names.routes.bounds.counts()


def test_brokers_register_up_to_a_limit_and_known_ones_remain(
    names: SocketlessNames, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(3):
        assert register(names, f"b{number}", port=number)[0] == 0
    for number in range(3, 6):
        code, remark = register(names, f"b{number}", port=number)
        assert (code, remark) == (
            1,
            "the limit is 3 addresses of brokers (brokerRegistrationMax)",
        )
    assert counts(names) == {"brokerRegistrationMax": 3}
    told = [one for one in caplog.records if one.getMessage().startswith("brokerRegistrationMax")]
    assert [one.levelno for one in told] == [logging.WARNING], "logged once"
    assert set(names.names.routes.clusters().broker_addr_table) == {"b0", "b1", "b2"}
    assert register(names, "b1", port=1, counter=2, topics=("New",))[0] == 0
    assert register(names, "b2", port=22)[0] == 0, "a known broker may move"
    names(FakeRequest(318, {}, b"brokerRegistrationMax=4"))
    assert register(names, "b3", port=3)[0] == 0


def test_a_broker_that_is_gone_makes_room(names: SocketlessNames) -> None:
    for number in range(3):
        assert register(names, f"b{number}", port=number, connection=number)[0] == 0
    names.names.routes.close(1, "127.0.0.1:1")
    assert register(names, "b3", port=3)[0] == 0


def test_addresses_that_a_broker_left_take_no_room(names: SocketlessNames) -> None:
    for port in range(50):
        assert register(names, "b0", port=port, topics=())[0] == 0
    assert len(names.names.routes._live) <= 4
    assert register(names, "b0", port=49, counter=2)[0] == 0
    assert route(names)["brokerDatas"][0]["brokerAddrs"] == {"0": "127.0.0.1:49"}


def test_ids_of_a_broker(names: SocketlessNames) -> None:
    assert register(names, "b0", port=1)[0] == 0
    assert register(names, "b0", port=2, broker_id=7)[0] == 0
    code, remark = register(names, "b0", port=3, broker_id=8)
    assert (code, remark) == (1, "broker b0 has 2 ids, and the limit is 2 (brokerIdMax)")
    assert register(names, "b0", port=2, broker_id=7)[0] == 0


def test_clusters_that_one_broker_makes_up(names: SocketlessNames) -> None:
    """One broker may be in several clusters; unregistering removes it from all of them."""
    for cluster in "ABC":
        assert register(names, "b0", cluster=cluster)[0] == 0
    code, remark = register(names, "b0", cluster="D")
    assert (code, remark) == (
        1,
        "the limit is 3 brokers in clusters (brokerRegistrationMax)",
    )
    assert register(names, "b0", cluster="B")[0] == 0
    names.names.routes.unregister("b0", 0, "127.0.0.1:1", "A")
    for cluster in "DE":
        assert register(names, "b1", cluster=cluster)[0] == 0, "room of a broker that is gone"
    assert names.names.routes.clusters().cluster_addr_table == {"D": ["b1"], "E": ["b1"]}


def test_topics_of_a_broker_beyond_its_number_are_left_out(names: SocketlessNames) -> None:
    code, remark = register(names, "b0", topics=("A", "B", "C", "D", "E", "F"))
    assert (code, remark) == (
        1,
        "left out 2 topics of broker b0, as there are 4 already (brokerTopicMax)",
    )
    assert sorted(names.names.routes.topics()) == ["A", "B", "C", "D"]
    changed = register(names, "b0", topics=("A", "B", "C", "D"), counter=2, queues=8)
    assert changed[0] == 0, "what is there changes"
    assert route(names, "D")["queueDatas"][0]["readQueueNums"] == 8
    names.time += 119
    assert register(names, "b0", topics=("A", "F"), counter=3)[0] == 1
    names.time += 2
    assert names.names.routes.expire() == [], "a broker with too many topics lives"


def test_topics_that_were_left_out_are_taken_once_there_is_room(names: SocketlessNames) -> None:
    """The broker's version is the same all the time."""
    topics = ("A", "B", "C", "D", "E")
    assert register(names, "b0", topics=topics)[0] == 1
    assert register(names, "b0", topics=topics)[0] == 1, "told each time"
    names(FakeRequest(216, {"topic": "A"}))
    assert register(names, "b0", topics=topics[1:])[0] == 0
    names(FakeRequest(318, {}, b"brokerTopicMax=5"))
    assert register(names, "b0", topics=topics, counter=2)[0] == 0
    assert sorted(names.names.routes.topics()) == [*topics]


def test_topics_of_all_brokers(names: SocketlessNames) -> None:
    assert register(names, "b0", port=1, topics=("A", "B", "C", "D"))[0] == 0
    code, remark = register(names, "b1", port=2, topics=("A", "B", "E"))
    assert (code, remark) == (
        1,
        "left out 1 topics of broker b1, as there are 6 already (topicRouteMax)",
    )
    names.names.routes.unregister("b0", 0, "127.0.0.1:1", "C")
    assert register(names, "b1", port=2, topics=("A", "B", "E"))[0] == 0


def test_names_of_any_length_are_not_taken(names: SocketlessNames) -> None:
    code, remark = register(names, "b" * 256)
    assert code == 1
    assert "has more than 255 characters" in remark
    assert register(names, "b0", cluster="c" * 256)[0] == 1
    assert names.names.routes.clusters().broker_addr_table == {}
    assert register(names, "b" * 255, topics=(f"%RETRY%{'g' * 255}",))[0] == 0


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("queues", [65_537, 10_000_000, 2**31 - 1, -1])
def test_a_topic_of_too_many_queues_is_left_out(
    names: SocketlessNames, queues: int, compressed: bool
) -> None:
    """The broker, its other topics and the topic's previous version remain."""
    assert register(names, "b0", topics=("A", "B"), compressed=compressed)[0] == 0
    more = {"counter": 2, "queues": queues, "compressed": compressed}
    for _ in range(2):
        code, remark = register(names, "b0", topics=("A", "C"), **more)
        why = f"topic A: readQueueNums={queues} must be 0 to 65536 and 1 more topics"
        assert (code, remark) == (1, f"left out {why}")
    assert route(names, "A")["queueDatas"][0]["readQueueNums"] == 4
    assert route(names, "C") is None
    assert register(names, "b0", topics=("C",), counter=2, queues=65_536)[0] == 0
    assert route(names, "C")["queueDatas"][0]["writeQueueNums"] == 65_536

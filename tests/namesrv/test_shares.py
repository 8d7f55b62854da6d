"""The share of a NameServer's limits that registrations of one source address may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqserver.namesrv.bounds import Bounds
from mqserver.runtime.processor_api import Response
from tests.fakes import FakeRequest
from tests.namesrv.servers import SocketlessNames
from tests.namesrv.test_routes import registration

BOUNDS = {"brokerRegistrationMax": "8", "brokerIdMax": "4", "topicRouteMax": "8"}
STRANGER, OTHER = "10.0.0.1:5", "10.0.0.2:5"


@pytest.fixture
def names(tmp_path: Path) -> SocketlessNames:
    return SocketlessNames(tmp_path, **BOUNDS)


def register(
    names: SocketlessNames,
    remote: str,
    broker: str,
    port: int,
    *,
    broker_id: int = 0,
    cluster: str = "C",
    topics: tuple[str, ...] = (),
) -> tuple[int, str]:
    address = f"{remote.partition(':')[0]}:{port}"
    request = registration(address=address, broker_id=broker_id, topics=topics, remote=remote)
    request.fields |= {"brokerName": broker, "clusterName": cluster}
    reply = names(request)
    assert isinstance(reply, Response)
    return reply.code, reply.remark or ""


def test_one_address_registers_at_most_half_of_the_brokers(names: SocketlessNames) -> None:
    for number in range(4):
        assert register(names, STRANGER, f"s{number}", number)[0] == 0
    assert register(names, STRANGER, "s4", 4) == (
        1,
        "the brokers at 10.0.0.1 take their share of brokerRegistrationMax=8 addresses of brokers: "
        "one source address may take 4 (sourceSharePercent=50)",
    )
    assert register(names, STRANGER, "s0", 0)[0] == 0, "what is there goes on"
    assert register(names, STRANGER, "s0", 44)[0] == 0, "a known broker may move"
    for number in range(4):
        assert register(names, OTHER, f"o{number}", number)[0] == 0
    names(FakeRequest(318, {}, b"sourceSharePercent=100\nbrokerRegistrationMax=9"))
    assert register(names, STRANGER, "s4", 4)[0] == 0, "100: no address has a share"


def test_a_broker_that_is_gone_gives_its_share_back(names: SocketlessNames) -> None:
    for number in range(4):
        assert register(names, STRANGER, f"s{number}", number)[0] == 0
    names.names.routes.unregister("s1", 0, "10.0.0.1:1", "C")
    assert register(names, STRANGER, "s4", 4)[0] == 0


def test_one_address_takes_half_of_the_ids_of_a_broker(names: SocketlessNames) -> None:
    assert register(names, OTHER, "b", 1)[0] == 0
    for broker_id in (7, 8):
        assert register(names, STRANGER, "b", broker_id, broker_id=broker_id)[0] == 0
    code, remark = register(names, STRANGER, "b", 9, broker_id=9)
    assert (code, "brokerIdMax=4 ids of broker b" in remark) == (1, True)
    assert register(names, OTHER, "b", 2, broker_id=1)[0] == 0


def test_one_address_makes_up_half_of_the_cluster_members(names: SocketlessNames) -> None:
    for cluster in "ABCD":
        assert register(names, STRANGER, "s", 1, cluster=cluster)[0] == 0
    code, remark = register(names, STRANGER, "s", 1, cluster="E")
    assert (code, "brokers in clusters" in remark) == (1, True)
    assert register(names, OTHER, "o", 1, cluster="E")[0] == 0


def test_the_topics_of_one_address_take_half_of_the_routes(names: SocketlessNames) -> None:
    assert register(names, STRANGER, "s0", 1, topics=("A", "B", "C"))[0] == 0
    assert register(names, STRANGER, "s1", 2, topics=("A", "B")) == (
        1,
        "left out 1 topics of broker s1, as one source address may register 4 of 8 topics "
        "(topicRouteMax)",
    )
    assert register(names, OTHER, "o", 1, topics=("A", "B", "C", "D"))[0] == 0


def test_this_machine_has_no_share(names: SocketlessNames) -> None:
    for number in range(8):
        assert register(names, "127.0.0.1:5", f"b{number}", number)[0] == 0
    assert "the limit is 8" in register(names, "127.0.0.1:5", "b8", 8)[1]


def test_bounds_without_trusted_addresses_have_no_shares() -> None:
    assert not Bounds().has_share("10.0.0.1")

"""A test cluster's NameServer has the product environment's routes where it has none itself."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqcommon import fastjson
from mqcommon.wire.frame import Frame
from mqserver.config.load import load, pairs
from mqserver.config.namesrv_table import NAMESRV
from mqserver.embedded.raw_client import Probe, ask
from mqserver.namesrv.server import NameServer
from tests.address_list import AddressList
from tests.namesrv.test_routes import registration


def name_server(folder: Path, **settings: str) -> NameServer:
    values = {"listenPort": "0", "bindAddress": "127.0.0.1", "kvConfigPath": f"{folder}/kv.json"}
    server = NameServer(load(NAMESRV, flags=pairs({**values, **settings}, "--set")))
    server.start()
    return server


@pytest.fixture
def product(tmp_path: Path) -> Iterator[NameServer]:
    server = name_server(tmp_path / "product")
    yield server
    server.stop()


@pytest.fixture
def listed(product: NameServer) -> Iterator[AddressList]:
    with AddressList(product.address) as server:
        yield server


@pytest.fixture
def tested(tmp_path: Path, listed: AddressList) -> Iterator[NameServer]:
    domain = {"rocketmq.namesrv.domain": listed.domain, "productEnvName": "shop"}
    server = name_server(tmp_path / "tested", clusterTest="true", **domain)
    yield server
    server.stop()


@contextmanager
def broker(server: NameServer, address: str, topic: str) -> Iterator[None]:
    """A broker that stays registered while its connection is open."""
    made = registration(address=address, topics=(topic,), queues=3)
    with Probe(server.address) as probe:
        assert probe.call(Frame(103, made.fields, made.body)).code == 0
        yield


def route(server: NameServer, topic: str) -> Frame:
    return ask(server.address, Frame(105, {"topic": topic}))


def test_a_route_of_the_product_environment_is_passed_on(
    product: NameServer, tested: NameServer, listed: AddressList
) -> None:
    with broker(product, "192.0.2.7:10911", "Far"):
        found = route(tested, "Far")
    assert found.code == 0, found.remark
    body = fastjson.loads(found.body)
    assert body["brokerDatas"][0]["brokerAddrs"] == {"0": "192.0.2.7:10911"}
    assert body["queueDatas"][0]["readQueueNums"] == 3
    assert b"{0:" in found.body, "fastjson's own style"
    assert listed.asked == ["/rocketmq/nsaddr-shop?nofix=1"]


def test_its_own_route_comes_first_with_the_order_configuration(
    product: NameServer, tested: NameServer
) -> None:
    order = {"namespace": "ORDER_TOPIC_CONFIG", "key": "Both", "value": "a:1"}
    assert ask(tested.address, Frame(100, order)).code == 0
    with broker(product, "192.0.2.7:10911", "Both"), broker(tested, "192.0.2.8:10911", "Both"):
        for _ in range(2):  # the second is not from the compiled plane either
            body = route(tested, "Both").body
            assert b'{0:"192.0.2.8:10911"}' in body
            assert b'"orderTopicConf":"a:1"' in body


def test_a_topic_that_nobody_has(tested: NameServer) -> None:
    reply = route(tested, "Nowhere")
    assert reply.code == 17
    assert (reply.remark or "").startswith(
        "No topic route info in name server for the topic: Nowhere\nSee http"
    )


def test_an_environment_that_does_not_answer_is_logged(
    product: NameServer, tested: NameServer, caplog: pytest.LogCaptureFixture
) -> None:
    product.stop()
    with caplog.at_level(logging.WARNING):
        assert route(tested, "Far").code == 17
    assert "cannot get the route of topic Far from environment shop" in caplog.text


def test_without_the_switch_nobody_is_asked(tmp_path: Path, listed: AddressList) -> None:
    server = name_server(tmp_path / "plain", **{"rocketmq.namesrv.domain": listed.domain})
    try:
        assert route(server, "Far").code == 17
        assert listed.asked == []
    finally:
        server.stop()

"""OpenMessaging access points: parsing, the clients they create, and errors."""

from __future__ import annotations

from typing import Any

import pytest

from mqclient import Admin, LitePullConsumer, Message, Producer, PushConsumer, Retry
from mqclient import aio as mqaio
from mqclient.engine.mock import MockTransport
from mqclient.integrations.oms import AccessPoint
from tests.client.cluster import Cluster


@pytest.mark.parametrize(
    ("url", "point"),
    [
        ("oms:rocketmq://h:1", AccessPoint(("h:1",))),
        ("oms:rocketmq://h", AccessPoint(("h:9876",))),
        ("oms:rocketmq://h:1,i:2/", AccessPoint(("h:1", "i:2"))),
        ("oms:rocketmq://[::1]:1/shop-1", AccessPoint(("[::1]:1",), "shop-1")),
    ],
)
def test_what_they_say(url: str, point: AccessPoint) -> None:
    assert AccessPoint.read(url) == point


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("rocketmq://h:1", "is no access point; give oms:rocketmq://HOST:PORT"),
        ("oms:kafka://h:1", "is no access point"),
        ("oms:rocketmq://", "is no access point"),
        ("oms:rocketmq://h:1/a?b=c", "is no access point"),
        ("oms:rocketmq://alice@h:1", r"pass credentials=Credentials\(\.\.\.\)"),
        ("oms:rocketmq://h:x", "is not an address"),
        ("oms:rocketmq://h:1/eu:shop", "must be 1 to 64 letters"),
        ("oms:rocketmq://h:1/a/b", "must be 1 to 64 letters"),
    ],
)
def test_what_is_wrong_with_them(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        AccessPoint.read(url)


def test_only_text_is_read() -> None:
    with pytest.raises(TypeError, match="not bytes"):
        AccessPoint.read(b"oms:rocketmq://h:1")  # type: ignore[arg-type]


def test_they_make_clients() -> None:
    cluster = Cluster(T=1)
    point = AccessPoint.read("oms:rocketmq://h:1,i:2")
    with point.make(Producer, transport=cluster.transport, retry=Retry(max_retries=0)) as producer:
        producer.send(Message("T", b"x"))
    assert {address for address, _ in cluster.transport.sent} <= {"h:1", "i:2", "127.0.0.1:10911"}
    transport = MockTransport()
    made: list[Any] = [
        point.make(PushConsumer, "readers", transport=transport),
        point.make(mqaio.LitePullConsumer, None, transport=transport),
        point.make(Admin, transport=transport),
    ]
    assert [type(client) for client in made] == [PushConsumer, mqaio.LitePullConsumer, Admin]


@pytest.mark.parametrize("kind", [Admin, mqaio.Admin])
def test_a_client_that_has_no_namespace_refuses_it(kind: Any) -> None:
    point = AccessPoint.read("oms:rocketmq://h:1/shop")
    with pytest.raises(ValueError, match="cannot work in a namespace"):
        point.make(kind)


def test_a_namespace_reaches_the_client() -> None:
    point = AccessPoint.read("oms:rocketmq://h:1/shop")
    cluster = Cluster(**{"shop%T": 1})
    with point.make(Producer, transport=cluster.transport, retry=Retry(max_retries=0)) as producer:
        assert producer.send(Message("T", b"x")).message_queue.topic == "T"
    assert [queue.topic for queue in cluster.stored] == ["shop%T"]
    reader = point.make(LitePullConsumer, "readers", transport=MockTransport())
    assert repr(reader).startswith("<LitePullConsumer shop%readers ")

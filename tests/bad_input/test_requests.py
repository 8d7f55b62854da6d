"""Malformed requests get RocketMQ's own code, and the connection stays usable."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from tests.server.raw import Raw, json_frame

PLANES = ("native", "python")


@pytest.fixture(scope="module", params=PLANES)
def mq(request: pytest.FixtureRequest) -> Iterator[Standalone]:
    settings = {"dataPlane": request.param, "maxMessageSize": "2048"}
    with Standalone(settings=settings) as both:
        yield both


@pytest.fixture
def broker(mq: Standalone) -> Iterator[Probe]:
    with Probe(mq.broker_address) as probe:
        yield probe
        again = probe.call(Frame(999))
        assert again.code == 3, "the connection must live on"


def send(topic: str, body: bytes = b"x", **letters: str) -> Frame:
    fields = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
    return Frame(310, {**fields, "h": "0", "m": "false", **letters}, body)


def test_an_unknown_code(broker: Probe) -> None:
    reply = broker.call(Frame(4711))
    assert (reply.code, reply.remark) == (3, " request type 4711 not supported")


def test_an_illegal_topic_name(broker: Probe) -> None:
    reply = broker.call(send("no good!"))
    assert reply.code == 1
    assert "illegal characters" in (reply.remark or "")


def test_a_body_over_the_limit(broker: Probe, mq: Standalone) -> None:
    topic = mq.topic()
    assert broker.call(send(topic, b"x" * 2048)).code == 0
    reply = broker.call(send(topic, b"x" * 2049))
    assert reply.code == 13
    assert "msg body length limit 2048B" in (reply.remark or "")
    assert len(mq.messages(topic)) == 1


def test_properties_over_the_limit(broker: Probe, mq: Standalone) -> None:
    reply = broker.call(send(mq.topic(), i="big\x01" + "y" * 32_767))
    assert reply.code == 13


@pytest.mark.parametrize("field", ["e", "f", "g", "h"])
@pytest.mark.parametrize("value", ["", "abc", "99999999999999999999"])
def test_a_field_that_is_no_number(broker: Probe, mq: Standalone, field: str, value: str) -> None:
    reply = broker.call(send(mq.topic(), **{field: value}))
    assert reply.code == 1


@pytest.mark.parametrize("code", [34, 41, 42, 200])
@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff\xfe", b"7"])
def test_a_body_that_is_not_what_it_should_be(broker: Probe, code: int, body: bytes) -> None:
    assert broker.call(Frame(code, body=body)).code == 1


@pytest.mark.parametrize("code", [11, 12, 14, 15, 17, 29, 30, 31, 32, 33, 35, 36, 38, 202, 208])
def test_missing_fields(broker: Probe, code: int) -> None:
    assert broker.call(Frame(code)).code in (1, 26)


@pytest.mark.parametrize("queues", ["-1", "65537", "2147483647", "99999999999"])
def test_a_topic_of_too_many_queues(broker: Probe, queues: str) -> None:
    fields = {"topic": "Wide", "defaultTopic": "TBW102", "perm": "6"}
    fields |= {"readQueueNums": queues, "writeQueueNums": queues}
    reply = broker.call(Frame(17, {**fields, "topicFilterType": "SINGLE_TAG"}))
    assert reply.code == 1


def test_the_namesrv_is_silent_about_an_unknown_code(mq: Standalone) -> None:
    raw = Raw(int(mq.namesrv.rpartition(":")[2]))
    raw.send(json_frame(4711, 1))
    reply = raw.ask(json_frame(206, 2))
    assert (reply.code, reply.opaque) == (0, 2)
    raw.close()


def test_the_namesrv_refuses_a_registration_it_cannot_read(mq: Standalone) -> None:
    fields = {"brokerName": "b", "brokerAddr": "127.0.0.1:1", "clusterName": "C"}
    fields |= {"haServerAddr": "127.0.0.1:2", "brokerId": "0", "compressed": "true"}
    with Probe(mq.namesrv) as probe:
        assert probe.call(Frame(103, fields, b"not zlib")).code == 1
        assert probe.call(Frame(103, {**fields, "bodyCrc32": "5"}, b"x")).code == 1
        assert probe.call(Frame(103, {"brokerId": "x"})).code == 1
        assert b'"b"' not in probe.call(Frame(106)).body

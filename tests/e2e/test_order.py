"""Sends of one connection to one queue are stored in the order in which they were sent."""

from __future__ import annotations

from mqcommon.wire.frame import Frame, encode
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone

COUNT = 400


def send(topic: str, body: bytes, opaque: int) -> bytes:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1"}
    return encode(Frame(310, {**letters, "h": "0", "m": "false"}, body, opaque=opaque))


def pipelined(mq: Standalone, topic: str) -> list[bytes]:
    """Send without waiting, then read all answers; the bodies as stored."""
    with Probe(mq.broker_address, timeout=60) as probe:
        probe.write(b"".join(send(topic, str(i).encode(), i) for i in range(COUNT)))
        codes = [probe.read().code for _ in range(COUNT)]
    assert codes == [0] * COUNT
    return [message.body for message in mq.messages(topic)]


def test_in_a_topic_that_exists(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    assert pipelined(mq, topic) == [str(i).encode() for i in range(COUNT)]


def test_in_a_topic_that_the_first_of_them_creates(mq: Standalone) -> None:
    assert pipelined(mq, "CreatedByTheFirst") == [str(i).encode() for i in range(COUNT)]

"""Filters of groups beyond plain pulls: messages that come again, and bits kept for messages."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import bloom_bits, decode_messages

GROUP = "picky"
RETRY = f"%RETRY%{GROUP}"
UNIT = struct.Struct(">hqqh")
"""A unit of the extension without its bitmap: size, tags code, store time, size of the bitmap."""
ONLINE = {"sysFlag": "0", "subVersion": "7"}


@pytest.fixture
def probe(mq: Standalone) -> Iterator[Probe]:
    with Probe(mq.broker_address, timeout=60) as probe:
        yield probe


@contextmanager
def with_bits(store: Path, plane: str) -> Iterator[tuple[Standalone, Probe]]:
    """A broker that stores a bitmap of interested consumers with each message."""
    settings = {"enablePropertyFilter": "true", "enableConsumeQueueExt": "true"}
    settings |= {"enableCalcFilterBitMap": "true", "dataPlane": plane}
    with (
        Standalone(data=store, settings=settings) as mq,
        Probe(mq.broker_address, timeout=60) as probe,
    ):
        yield mq, probe


def send(probe: Probe, topic: str, body: str, **properties: object) -> None:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
    text = "\x02".join(f"{name}\x01{value}" for name, value in properties.items())
    reply = probe.call(Frame(310, {**letters, "h": "0", "i": text, "m": "false"}, body.encode()))
    assert reply.code == 0, reply.remark


def heartbeat(
    probe: Probe, group: str, wanted: dict[str, tuple[str, str]], version: int = 7
) -> None:
    """One member; wanted: topic to type and expression."""
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [
            {"topic": topic, "subString": text, "subVersion": version, "expressionType": kind}
            for topic, (kind, text) in wanted.items()
        ],
    }
    body = {"clientID": f"c@{group}", "consumerDataSet": [consumer], "producerDataSet": []}
    assert probe.call(Frame(34, {}, json.dumps(body).encode())).code == 0


def pull(probe: Probe, topic: str, group: str) -> list[str]:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": "0"}
    fields |= {"maxMsgNums": "32", "commitOffset": "0", "suspendTimeoutMillis": "0"}
    reply = probe.call(Frame(11, {**fields, **ONLINE}))
    assert reply.code == 0, reply.remark
    return [message.body.decode() for message in decode_messages(reply.body)]


def test_messages_that_come_again_are_filtered_if_that_is_set(mq: Standalone, probe: Probe) -> None:
    wanted, plain = mq.topic(queues=1), mq.topic(queues=1)
    tags = ("TAG", "*")
    heartbeat(probe, GROUP, {wanted: ("SQL92", "a > 5"), plain: tags, RETRY: tags})
    for body, topic, a in (("low", wanted, 1), ("high", wanted, 9), ("any", plain, 1)):
        send(probe, RETRY, body, RETRY_TOPIC=topic, a=a)
    mq.wait_dispatched()
    assert pull(probe, RETRY, GROUP) == ["low", "high", "any"]
    probe.call(Frame(25, {}, b"filterSupportRetry=true\n"))
    assert pull(probe, RETRY, GROUP) == ["high", "any"]
    probe.call(Frame(25, {}, b"filterSupportRetry=false\n"))
    assert pull(probe, RETRY, GROUP) == ["low", "high", "any"]


def test_the_extension_keeps_which_groups_want_a_message(plane: str, tmp_path: Path) -> None:
    with with_bits(tmp_path, plane) as (mq, probe):
        topic = mq.topic(queues=1)
        send(probe, topic, "before", a=9)
        mq.wait_dispatched()
        heartbeat(probe, "one", {topic: ("SQL92", "a > 5")})
        heartbeat(probe, "two", {topic: ("SQL92", "a > 7"), "other": ("SQL92", "a > 0")})
        for a in (1, 6, 9):
            send(probe, topic, str(a), a=a)
        mq.wait_dispatched()
    (file,) = tmp_path.rglob(f"consumequeue_ext/{topic}/0/*")
    one, two = (set(bloom_bits(group, topic, 20, 32)[1]) for group in ("one", "two"))
    assert bitmaps(file.read_bytes()) == [None, set(), one, one | two]


def test_a_group_that_is_filtered_by_bits_misses_nothing(plane: str, tmp_path: Path) -> None:
    with with_bits(tmp_path, plane) as (mq, probe):
        topic, sent = mq.topic(queues=1), list[str]()

        def send_all() -> None:
            for a in (1, 6, 9):
                sent.append(f"{a}/{len(sent)}")
                send(probe, topic, sent[-1], a=a)
            mq.wait_dispatched()

        def wanted(above: int) -> list[str]:
            return [body for body in sent if int(body.partition("/")[0]) > above]

        send_all()  # no group has a filter yet
        for version, above in ((7, 5), (8, 7), (9, 0)):
            heartbeat(probe, "one", {topic: ("SQL92", f"a > {above}")}, version)
            assert pull(probe, topic, "one") == wanted(above), "bits of an older filter"
            send_all()
            heartbeat(probe, "two", {topic: ("SQL92", "a > 8")})
            send_all()
            assert pull(probe, topic, "one") == wanted(above)
            assert pull(probe, topic, "two") == wanted(8)


def bitmaps(data: bytes) -> list[set[int] | None]:
    """The bits set in each unit of an extension file, None for a unit without a bitmap."""
    found: list[set[int] | None] = []
    at = 0
    while (size := UNIT.unpack_from(data, at)[0]) > 0:
        bitmap = data[at + UNIT.size : at + size]
        bits = {bit for bit in range(len(bitmap) * 8) if bitmap[bit // 8] >> (bit % 8) & 1}
        found.append(bits if bitmap else None)
        at += size
    return found

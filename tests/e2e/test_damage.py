"""Bits that flip, and files that shrink, under a running broker that a real client reads."""

from __future__ import annotations

import asyncio
import json
import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqclient.aio import LitePullConsumer
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqserver.embedded.subprocess_servers import SubprocessServers
from mqstore import ReceivedMessage, decode_messages
from tests.waiting import until

MESSAGES = 1_000
FLIPS = 400
"""Damaged messages: each in another one."""
REGIONS = {
    "size": range(4),
    "magic": range(4, 8),
    "body CRC": range(8, 12),
    "queue id": range(12, 16),
    "queue offset": range(20, 28),
    "physical offset": range(28, 36),
    "body length": range(84, 88),
    "body": range(88, 88 + 100),
}
PLANES = ("native", "python")


@pytest.fixture(params=PLANES)
def mq(request: pytest.FixtureRequest) -> Iterator[Standalone]:
    both = Standalone(settings={"dataPlane": request.param}, process=True)
    try:
        yield both.start()
    finally:
        both.stop()


def send(topic: str, body: bytes, queue_id: int = 0) -> Frame:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0"}
    return Frame(310, {**letters, "g": "1", "h": "0", "m": "false"}, body)


def fill(mq: Standalone, topic: str, count: int, size: int = 100) -> list[bytes]:
    bodies = [f"{number:04}-".encode().ljust(size, b"x") for number in range(count)]
    with Probe(mq.broker_address, timeout=60) as probe:
        for body in bodies:
            reply = probe.call(send(topic, body))
            assert reply.code == 0, reply.remark
    mq.wait_dispatched()
    return bodies


def log_file(mq: Standalone) -> Path:
    """The first log file; the next one may be prepared already."""
    return min((mq.data / "commitlog").iterdir())


def flip(path: Path, at: int, bit: int) -> None:
    with path.open("r+b", buffering=0) as file:
        byte = os.pread(file.fileno(), 1, at)[0]
        os.pwrite(file.fileno(), bytes([byte ^ bit]), at)


async def read(mq: Standalone, topic: str, count: int) -> list[bytes]:
    """Read `count` messages of a topic with a real client."""
    async with LitePullConsumer(None, mq.namesrv, consume_from="earliest") as consumer:
        consumer.assign(await consumer.queues(topic))
        async with asyncio.timeout(60):
            return [(await anext(consumer)).body for _ in range(count)]


def figure(mq: Standalone, name: str) -> int:
    with Probe(mq.broker_address) as probe:
        return int(json.loads(probe.call(Frame(28)).body)["table"][name])


async def test_a_client_gets_the_neighbours_of_damaged_messages_alone(mq: Standalone) -> None:
    dice = random.Random(1)
    topic = mq.topic(queues=1)
    bodies = fill(mq, topic, MESSAGES)
    offsets = [message.commit_log_offset for message in mq.messages(topic)]
    assert len(offsets) == MESSAGES
    hit = dice.sample(range(MESSAGES - 1), FLIPS)
    for turn, number in enumerate(hit):
        region = list(REGIONS.values())[turn % len(REGIONS)]
        flip(log_file(mq), offsets[number] + dice.choice(region), 1 << dice.randrange(8))
    whole = [body for number, body in enumerate(bodies) if number not in hit]
    assert await read(mq, topic, len(whole)) == whole
    assert [message.body for message in mq.messages(topic)] == whole
    assert figure(mq, "damagedRecordsSkipped") >= FLIPS
    with Probe(mq.broker_address) as probe:  # by offset, as mqadmin queryMsgById asks
        for number, offset in enumerate(offsets):
            reply = probe.call(Frame(33, {"offset": str(offset)}))
            if number not in hit:
                assert decode_messages(reply.body)[0].body == bodies[number]


def alive(mq: Standalone) -> bool:
    assert isinstance(mq.servers, SubprocessServers)
    with Probe(mq.broker_address) as probe:
        return probe.call(Frame(28)).code == 0


@pytest.mark.parametrize("keep", [0, 1 << 20], ids=["all of it", "its end"])
async def test_a_truncated_log_refuses_messages_and_the_process_lives(
    mq: Standalone, keep: int
) -> None:
    topic, other = mq.topic(queues=1), mq.topic(queues=1)
    first = fill(mq, other, 8)
    assert await read(mq, other, 8) == first
    fill(mq, topic, 2_000, 1_000)
    os.truncate(log_file(mq), keep)

    def refused() -> bool:
        with Probe(mq.broker_address, timeout=60) as probe:
            return probe.call(send(topic, b"x" * 1_000)).code != 0

    assert until(refused), "the next flush finds the file truncated"
    assert alive(mq)
    read_back = [message.body for message in mq.messages(other)]
    assert read_back == (first if keep else [])
    kept = len(mq.messages(topic))
    assert (0 < kept < 2_000) if keep else kept == 0
    assert alive(mq)


async def test_a_truncated_index_is_made_anew_by_the_next_start(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
    acknowledged = 0
    with Probe(mq.broker_address, timeout=60) as probe:
        for number in range(50):
            fields = {**letters, "h": "0", "m": "false", "i": f"KEYS\x01k{number}"}
            acknowledged += probe.call(Frame(310, fields, b"%d" % number)).code == 0
            if number == 10:
                mq.wait_dispatched()
                (index,) = (mq.data / "index").iterdir()
                os.truncate(index, 0)
    assert alive(mq)
    assert await read(mq, topic, 11) == [b"%d" % number for number in range(11)]
    mq.kill()
    mq.start()
    stored = [message.body for message in mq.messages(topic)]
    assert stored[:acknowledged] == [b"%d" % number for number in range(acknowledged)]
    assert [m.body for m in found_by_key(mq, topic, "k3")] == [b"3"]


def found_by_key(mq: Standalone, topic: str, key: str) -> list[ReceivedMessage]:
    fields = {"topic": topic, "key": key, "maxNum": "32", "beginTimestamp": "0"}
    with Probe(mq.broker_address) as probe:
        reply = probe.call(Frame(12, {**fields, "endTimestamp": str(2**62)}))
    return decode_messages(reply.body)

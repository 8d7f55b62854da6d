"""Frames that are almost right: each costs at most its connection, and nothing hangs."""

from __future__ import annotations

import json
import random

import pytest

from tests.server.native import Broker, pull_fields, send_fields
from tests.server.raw import Raw, binary_frame, json_frame

LOCK = json.dumps(
    {
        "clientId": "c",
        "consumerGroup": "g",
        "mqSet": [{"brokerName": "broker-a", "queueId": 0, "topic": "T"}],
    }
).encode()


def frames():
    for make in (json_frame, binary_frame):
        yield make(310, 1, send_fields(i="TAGS\x01A\x02DELAY\x011"), b"body")
        yield make(320, 2, send_fields(m="true"), b"\0\0\0\x17" + b"\0" * 12 + b"\0\0\0\x01z\0\0")
        yield make(11, 3, pull_fields(0, subscription="A || B"))
        yield make(14, 4, {"consumerGroup": "g", "topic": "T", "queueId": "0"})
        yield make(41, 5, None, LOCK)
        yield make(0, 6, {"a": "b"}, flag=1)


def mutated(frame: bytes, chance: random.Random) -> bytes:
    """A few bytes changed, dropped or doubled; half of the time the length word is corrected."""
    data = bytearray(frame)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(data))
        kind = chance.randrange(4)
        if kind == 0:
            data[at] = chance.randrange(256)
        elif kind == 1:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 2 and len(data) > 12:
            del data[at : at + chance.randint(1, 8)]
        else:
            data[at:at] = data[at : at + chance.randint(1, 8)]
    if chance.random() < 0.5 and len(data) > 4:
        data[:4] = (len(data) - 4).to_bytes(4, "big")
    return bytes(data)


@pytest.mark.parametrize("seed", range(4))
def test_almost_right_frames(broker: Broker, seed: int):
    chance = random.Random(seed)
    originals = list(frames())
    for _ in range(100):
        with Raw(broker.port) as raw:
            raw.send(mutated(chance.choice(originals), chance))
    reply = broker.send(b"still here")
    assert reply.code == 0
    counters = broker.listener.counters()
    assert counters["unanswered"] == 0

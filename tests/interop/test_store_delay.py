"""Delayed messages that one maker's broker took are delivered by the other's, each once."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqcommon.message import decode_messages
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from tests.interop.clusters import Maker
from tests.interop.contents import Server, in_log
from tests.interop.our_servers import OurNamesrv
from tests.interop.turns import Turns
from tests.waiting import answer_of

TOPIC = "TopicDelay"
COUNT = 4
"""Messages of each delay level."""
DELIVERED, PENDING = 1, 3
"""Levels: one second, delivered by the first broker; ten seconds, by the second."""
PENDING_SECONDS = 10


@pytest.fixture(scope="module")
def namesrv(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = OurNamesrv(tmp_path_factory.mktemp("namesrv"))
    yield server.address
    server.stop()


def send(address: str, level: int) -> None:
    letters = {"a": "p", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0"}
    letters |= {"g": "1700000000000", "h": "0", "i": f"DELAY\x01{level}\x02", "m": "false"}
    with Probe(address) as probe:
        for number in range(COUNT):
            reply = probe.call(Frame(310, letters, f"{level}-{number}".encode()))
            assert reply.code == 0, reply.remark


def await_delivered(address: str, count: int, timeout: float = 90.0) -> None:
    with Server(address) as server:
        answer_of(lambda: server.offset(30, (TOPIC, 0)), lambda offset: offset >= count, timeout)


def delivered(turns: Turns) -> list[bytes]:
    records = in_log(turns.store).get((TOPIC, 0), {})
    return [decode_messages(record)[0].body for record in records.values()]


def progress(turns: Turns) -> dict[int, int]:
    """How many messages of each delay level were delivered."""
    table = turns.state("delayOffset.json")["offsetTable"]
    return {int(level): offset for level, offset in table.items() if offset}


@pytest.mark.parametrize(("first", "second"), [("ours", "java"), ("java", "ours")])
def test_what_one_took_the_other_delivers_once(
    first: Maker, second: Maker, namesrv: str, tmp_path: Path
) -> None:
    early = [f"{DELIVERED}-{number}".encode() for number in range(COUNT)]
    late = [f"{PENDING}-{number}".encode() for number in range(COUNT)]
    with Turns(tmp_path, namesrv) as turns:
        broker = turns.start(first)
        began = time.monotonic()
        send(broker.address, PENDING)
        send(broker.address, DELIVERED)
        await_delivered(broker.address, COUNT)
        broker.stop()
        if time.monotonic() - began < PENDING_SECONDS:  # else the first had time for all of them
            assert delivered(turns) == early
            assert progress(turns) == {DELIVERED: COUNT}

        broker = turns.start(second)
        await_delivered(broker.address, 2 * COUNT)
        broker.stop()
        assert delivered(turns) == early + late
        assert progress(turns) == {DELIVERED: COUNT, PENDING: COUNT}

        broker = turns.start(first)
        with Server(broker.address) as server:
            assert [decode_messages(r)[0].body for r in server.queue((TOPIC, 0)).values()] == (
                early + late
            )
        broker.stop()
        assert delivered(turns) == early + late

"""Replies are bounded by bytes while they are built, and all clients' together while they wait."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from mqcommon.wire.frame import Frame, encode
from mqserver.embedded.raw_client import Probe, ask
from mqserver.embedded.standalone import Standalone
from mqstore import decode_messages
from tests.waiting import until

MIB = 1 << 20
BODY = b"b" * (3 * MIB)
STOPPED = 60
"""Clients that send requests and read no answer."""


@pytest.fixture(scope="module")
def mq() -> Iterator[Standalone]:
    with Standalone() as started:
        yield started


def send(mq: Standalone, topic: str, body: bytes, key: str = "k") -> str:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
    more = {"h": "0", "i": f"KEYS\x01{key}", "m": "false"}
    reply = ask(mq.broker_address, Frame(310, {**letters, **more}, body), timeout=30)
    assert reply.code == 0
    return reply.fields["msgId"]


def test_a_query_by_key_gives_the_newest_that_fit(mq: Standalone) -> None:
    topic = mq.topic()
    for _ in range(6):
        send(mq, topic, BODY)
    mq.wait_dispatched()
    fields = {"topic": topic, "key": "k", "maxNum": "64"}
    times = {"beginTimestamp": "0", "endTimestamp": str(2**62)}
    reply = ask(mq.broker_address, Frame(12, {**fields, **times}), timeout=30)
    assert (reply.code, reply.remark) == (0, None)
    assert [found.queue_offset for found in decode_messages(reply.body)] == [5]


def test_entries_of_a_queue_are_told_without_their_messages(mq: Standalone) -> None:
    topic = mq.topic()
    for _ in range(3):
        send(mq, topic, BODY)
    mq.wait_dispatched()
    fields = {"topic": topic, "queueId": "0", "index": "0", "count": "4096"}
    rows = json.loads(ask(mq.broker_address, Frame(321, fields)).body)["queueData"]
    assert len(rows) == 3
    assert rows[1]["physicOffset"] == rows[0]["physicOffset"] + rows[0]["physicSize"]


def test_clients_that_take_nothing_are_owed_a_bounded_sum(mq: Standalone) -> None:
    msg_id = send(mq, mq.topic(), BODY)
    view = Frame(33, {"offset": str(int(msg_id[16:], 16))})
    with ExitStack() as opened:
        probes = [Probe(mq.broker_address) for _ in range(STOPPED)]
        for probe in probes:
            opened.enter_context(probe)
            probe.write(encode(view))
        other = opened.enter_context(Probe(mq.broker_address))
        assert other.call(Frame(28)).code == 0, "small replies are not refused"
        assert until(lambda: waiting(mq) == 0)
        codes = Counter(probe.read().code for probe in probes)
    assert codes.keys() == {0, 2}
    assert codes[0] * len(BODY) <= 2 * 64 * MIB, "the sockets of the system took the rest"
    assert ask(mq.broker_address, view).code == 0


def waiting(mq: Standalone) -> int:
    """Queries that wait to be served."""
    table = json.loads(ask(mq.broker_address, Frame(28)).body)["table"]
    return int(table["queryThreadPoolQueueSize"])

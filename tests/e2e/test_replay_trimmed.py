"""The recorded questions about queues whose head is deleted, to our broker in both planes."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from mqcommon.wire.frame import Frame, decode
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import Settings, Store
from tests.common.wire.golden import FOLDER, frames
from tests.inside import store_of
from tests.waiting import until

TOPIC = "WireTopic"
RANGES = ((6, 81), (11, 63), (9, 60), (9, 59))
"""First and last offset of each queue, as recorded."""
LOST = {29: "RocketMQ's recording had lost the rest of the log too: offset 0, no time"}


def trim(store: Store) -> None:
    """Delete the log file that holds the messages before the ranges."""
    for queue_id, (first, _) in enumerate(RANGES):
        for _ in range(first):
            store.put(TOPIC, b"old", queue_id=queue_id)
    for _ in range(2):
        store.put("Filler", bytes(600_000))
    for queue_id, (first, end) in enumerate(RANGES):
        for _ in range(end - first):
            store.put(TOPIC, b"new", queue_id=queue_id)
    store.flush()
    store.set_cleaning(Settings(reserved_hours=0).as_dict())


@pytest.fixture(scope="module")
def probe(plane: str) -> Iterator[Probe]:
    settings = {"dataPlane": plane, "mappedFileSizeCommitLog": str(1 << 20)}
    with Standalone(settings=settings) as mq, Probe(mq.broker_address, timeout=60) as probe:
        mq.topic(TOPIC)
        trim(store_of(mq))
        mq.wait_dispatched()
        assert probe.call(Frame(329)).code == 0
        begins = [first for first, _ in RANGES]
        assert until(
            lambda: [store_of(mq).min_offset(TOPIC, number) for number in range(4)] == begins
        )
        yield probe


def shape(frame: Frame) -> dict[str, object]:
    """What must be equal; times must not."""
    text = re.sub(rb'"lastUpdateTimestamp":-?\d+', b'"lastUpdateTimestamp":0', frame.body)
    rows = sorted(re.findall(rb"\{\{?[^{}]*\}:\{[^{}]*\}|,\{[^{}]*\}:\{[^{}]*\}", text))
    fields = {k: v for k, v in frame.fields.items() if k != "timestamp"}
    return {"code": frame.code, "remark": frame.remark, "fields": fields, "rows": len(rows),
            "has": bool(frame.body)}  # fmt: skip


def test_replies_equal_rocketmqs(probe: Probe) -> None:
    asked: dict[int, Frame] = {}
    compared = 0
    for recorded in frames(FOLDER / "trimmed.jsonl.gz"):
        frame = decode(recorded.data)
        if not frame.is_response:
            asked[frame.opaque] = frame
            continue
        request = asked[frame.opaque]
        reply = probe.call(request)
        if request.code not in LOST:
            assert shape(reply) == shape(frame), request
            compared += 1
        else:
            assert reply.code == frame.code
    assert compared > 12

"""The recorded hand-made session, sent to our broker in both planes and compared.

Offsets, times and addresses depend on earlier messages in the store; everything else is equal:
codes, remarks, which header fields there are, and whether there is a body.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from mqcommon.wire.frame import Frame, decode
from mqserver.broker.table import PROCESSORS
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from tests.common.wire.golden import FOLDER, frames

SESSIONS = ("raw-broker", "raw-broker-rocketmq")
"""The same requests with JSON and with ROCKETMQ headers."""
ELSEWHERE = {
    "batch, broken body": "we answer 13, message illegal, where Java throws",
    "pull, sql inline": "Java's messages had the property",
    "heartbeat, broken json": "a Java stack trace",
    "heartbeat, empty body": "a Java stack trace",
    "get broker config": "other keys",
    "query message": "depends on what was stored",
    "view offset 1": "Java reads from the middle of a record; we answer 1",
    "query offset of known group": "Java's group had pulled before",
}
JAVA_ERROR = re.compile(r"^(java|org\.apache|com\.alibaba)\.[\w.$]+(Exception|Error)")


def recording(session: str) -> list[tuple[str, Frame, Frame]]:
    """Label, request and reply of every request for a code of ours."""
    found: list[tuple[str, Frame, Frame]] = []
    waiting: dict[tuple[int, int], tuple[str, Frame]] = {}
    for recorded in frames(FOLDER / f"{session}.jsonl.gz"):
        line = recorded.line
        if line.get("server") != "broker":
            continue
        frame = decode(recorded.data)
        key = (line["conn"], frame.opaque)
        if line["from"] == "client":
            waiting[key] = (line["label"], frame)
        elif frame.is_response and key in waiting:
            label, request = waiting.pop(key)
            if request.code in PROCESSORS or request.code == 999:
                found.append((label, request, frame))
    return found


RECORDING = recording(SESSIONS[0])


def shape(frame: Frame) -> tuple[int, str, list[str], bool]:
    """What does not depend on the store's history."""
    remark = frame.remark or ""
    if JAVA_ERROR.match(remark):
        remark = "an error"
    remark = re.sub(r"127\.0\.0\.1:\d+", "ADDRESS", remark)
    fields = [] if remark == "an error" else sorted(frame.fields)
    return frame.code, remark, fields, bool(frame.body)


@pytest.fixture(scope="module")
def probe(mq: Standalone) -> Iterator[Probe]:
    mq.topic("WireTopic")
    with Probe(mq.broker_address, timeout=60) as probe:
        for queue_id in range(4):
            for _ in range(6):
                probe.call(plain_send("WireTopic", queue_id))
        yield probe


def plain_send(topic: str, queue_id: int) -> Frame:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": str(queue_id), "f": "0"}
    return Frame(310, {**letters, "g": "1", "h": "0", "i": "KEYS\x01rk1", "m": "false"}, b"x")


def test_there_is_much_to_compare() -> None:
    assert len(RECORDING) > 90


@pytest.mark.parametrize("session", SESSIONS)
def test_replies_equal_rocketmqs(probe: Probe, session: str) -> None:
    differences: list[str] = []
    for label, request, expected in recording(session):
        reply = probe.call(
            Frame(
                request.code,
                dict(request.fields),
                request.body,
                language=request.language,
                version=request.version,
                serialize=request.serialize,
                has_fields=request.has_fields,
            )
        )
        if label in ELSEWHERE:
            continue
        ours, theirs = shape(reply), shape(expected)
        if theirs[1] == "an error" and ours[0] == theirs[0]:
            continue
        if ours != theirs:
            differences.append(f"{label}:\n  ours   {ours}\n  theirs {theirs}")
    assert not differences, "\n".join(differences)

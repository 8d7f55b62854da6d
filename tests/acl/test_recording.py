"""The sessions recorded from RocketMQ 4.9.7 with access control on, byte for byte to our broker."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame, decode
from mqserver.embedded.raw_client import Probe
from tests.acl.signing import ADMIN, USER, signature
from tests.common.wire.golden import FOLDER, frames

SESSIONS = ("acl", "acl-rocketmq", "admin-acl")
SECRETS = dict([USER, ADMIN])
JAVA_PLACE = re.compile(r", org\.apache\.rocketmq\.acl\.plain\.\w+\.\w+\(\w+\.java:\d+\)$")
MASKED = re.compile(r"\b\d{13}\b|/[\w/.-]*plain_acl\.yml|127\.0\.0\.1:\d+")
WANDERING = {"queueId", "msgId", "queueOffset", "version", "allAclFileVersion"}
"""Fields that depend on earlier messages in the store, or on a clock."""


def exchanges(session: str) -> list[tuple[bytes, Frame, Frame | None]]:
    """Each request to the broker, and its reply."""
    found: list[tuple[bytes, Frame, Frame | None]] = []
    waiting: dict[tuple[str, int, int], int] = {}
    for recorded in frames(FOLDER / f"{session}.jsonl.gz"):
        if recorded.line.get("server") != "broker":
            continue
        frame = decode(recorded.data)
        key = (recorded.line["session"], recorded.line["conn"], frame.opaque)
        if recorded.line["from"] == "client":
            waiting[key] = len(found)
            found.append((recorded.data, frame, None))
        elif key in waiting:
            place = waiting.pop(key)
            found[place] = (*found[place][:2], frame)
    return found


def shape(reply: Frame) -> dict[str, object]:
    """The compared part of a reply, without secrets in refusals and Java's line numbers."""
    remark = JAVA_PLACE.sub("", reply.remark or "").replace("secretKey=123 ", "secretKey=****** ")
    names = sorted(reply.fields)
    values = {name: MASKED.sub("", reply.fields[name]) for name in names if name not in WANDERING}
    body = re.sub(r'"secretKey":"\w+"', '"secretKey":"******"', reply.body.decode())
    return {"code": reply.code, "remark": remark, "names": names, "values": values, "body": body}


@pytest.mark.parametrize("session", SESSIONS)
def test_every_recorded_signature_is_ours(session: str) -> None:
    checked = 0
    for _, request, reply in exchanges(session):
        fields = request.fields
        secret = SECRETS.get(fields.get("AccessKey", ""))
        if secret is None or (reply and "Check signature" in (reply.remark or "")):
            continue
        assert signature(fields, request.body, secret) == fields["Signature"]
        checked += 1
    assert checked > 8


@pytest.mark.parametrize("session", SESSIONS)
def test_replies_equal_rocketmqs(probe: Probe, session: str, home: Path) -> None:
    compared, differences = 0, []
    for data, request, expected in exchanges(session):
        if expected is None:
            continue
        probe.write(data)
        reply = probe.read()
        assert reply.opaque == request.opaque
        ours, theirs = shape(reply), shape(expected)
        denied = "AclException" in str(theirs["remark"])
        if ours != theirs or (denied and reply.serialize != expected.serialize):
            differences.append(f"{request.code} {request.fields}:\n  ours {ours}\n  java {theirs}")
        compared += 1
    assert not differences, "\n".join(differences)
    assert compared > 10
    if session == "admin-acl":
        written = re.sub(r"\d{13}", "", (home / "conf" / "plain_acl.yml").read_text())
        golden = (FOLDER / "acl-plain_acl-after.yml").read_text()
        assert written == re.sub(r"\d{13}", "", golden)

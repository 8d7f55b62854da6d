"""Our NameServer answers the recorded hand-made session as RocketMQ 4.9.7 did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqcommon import fastjson
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.topics import (
    RegisterBrokerBody,
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from mqcommon.wire.frame import Frame, decode
from mqserver.runtime.processor_api import NO_REPLY, Response
from tests.common.wire.golden import FOLDER, frames
from tests.fakes import FakeRequest, request_of
from tests.namesrv.servers import SocketlessNames


def pairs_of(session: str) -> list[tuple[str, Frame, Frame | None]]:
    """Label, request, and the reply that followed, None where there was silence."""
    found: list[tuple[str, Frame, Frame | None]] = []
    for recorded in frames(FOLDER / session):
        if "label" not in recorded.line:  # the real broker, registering meanwhile
            continue
        frame = decode(recorded.data)
        if not frame.is_response:
            found.append((recorded.line["label"], frame, None))
        else:
            label, request, _ = found.pop()
            found.append((label, request, frame))
    return found


def plain(body: bytes) -> Any:
    """A body's meaning: lists of names in any order, as Java's hash maps give them."""
    if not body:
        return None
    value = fastjson.loads(body)
    if isinstance(value, dict) and isinstance(value.get("topicList"), list):
        value["topicList"] = sorted(value["topicList"])
    return value


def prepared(tmp_path: Path, recording: list[tuple[str, Frame, Frame | None]]) -> SocketlessNames:
    """A NameServer that knows the broker and the topics of the recording."""
    names = SocketlessNames(tmp_path)
    if next(r.code for label, _, r in recording if r and label == "missing kv namespace") == 0:
        names.names.kv.put("NS", "k", "")  # left empty by the session recorded before
        names.names.kv.delete("NS", "k")
    listed = next(reply for label, _, reply in recording if label == "all topics")
    assert listed is not None
    topics = {
        name: TopicConfig(name, read_queue_nums=4, write_queue_nums=4)
        for name in plain(listed.body)["topicList"]
    }
    body = RegisterBrokerBody(TopicConfigSerializeWrapper(topics, DataVersion(1, 1)))
    fields = {
        "brokerName": "broker-a",
        "brokerAddr": "127.0.0.1:10911",
        "clusterName": "DefaultCluster",
        "haServerAddr": "127.0.0.1:10912",
        "brokerId": "0",
    }
    assert names(FakeRequest(103, fields, body.encode(), connection=9)) == Response(fields={})
    return names


@pytest.mark.parametrize("session", ["raw-namesrv.jsonl.gz", "raw-namesrv-rocketmq.jsonl.gz"])
def test_replies_equal_rocketmqs(tmp_path: Path, session: str) -> None:
    recording = pairs_of(session)
    names = prepared(tmp_path, recording)
    assert len(recording) > 45
    for label, request, expected in recording:
        reply = names(request_of(request))
        if expected is None:
            assert reply is NO_REPLY, label
            continue
        assert isinstance(reply, Response), label
        body = (reply.body or b"").replace(b',"enableActingMaster":false', b"")  # 5.x asks for it
        assert (reply.code, reply.remark) == (expected.code, expected.remark), label
        assert dict(reply.fields or {}) == expected.fields, label
        if request.serialize == 0:
            assert (reply.fields is not None) == expected.has_fields, label
        if label == "get config":
            assert b"listenPort=9876\n" in body
        else:
            assert plain(body) == plain(expected.body), label
        if request.code == 105:
            assert body == expected.body, label

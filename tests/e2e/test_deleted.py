"""A deletion that the broker has answered is permanent, even if the broker dies right after."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from tests.e2e.test_lowered_limits import GROUP, broker, make_group, send
from tests.waiting import until

TOPIC = "Deleted"


def bounds(probe: Probe, topic: str) -> list[list[int]]:
    """Minimum and maximum of each queue."""
    found = []
    for queue_id in range(4):
        fields = {"topic": topic, "queueId": str(queue_id)}
        replies = [probe.call(Frame(code, fields)) for code in (31, 30)]
        found.append([int(reply.fields["offset"]) for reply in replies])
    return found


def create(probe: Probe, topic: str) -> None:
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "4"}
    fields |= {"writeQueueNums": "4", "perm": "6", "topicFilterType": "SINGLE_TAG"}
    assert probe.call(Frame(17, {**fields, "order": "false"})).code == 0


def test_a_deleted_topic_made_anew_after_a_kill_is_empty(tmp_path: Path, plane: str) -> None:
    data, killed = tmp_path / "data", tmp_path / "killed"
    with broker(data, plane) as (_, probe):
        for topic in (TOPIC, f"%RETRY%{GROUP}", "Kept"):
            create(probe, topic)
            for _ in range(3):
                send(probe, topic, b"x")
            assert until(lambda topic=topic, probe=probe: bounds(probe, topic)[0] == [0, 3])
        for topic in (TOPIC, f"%RETRY%{GROUP}"):
            assert probe.call(Frame(215, {"topic": topic})).code == 0
        shutil.copytree(data, killed)
    for place in (data, killed):
        with broker(place, plane) as (_, probe):
            for topic in (TOPIC, f"%RETRY%{GROUP}"):
                create(probe, topic)
                assert bounds(probe, topic)[0] == [3, 3], place
            assert bounds(probe, "Kept")[0] == [0, 3]
            send(probe, TOPIC, b"new")
            assert until(lambda probe=probe: bounds(probe, TOPIC)[0] == [3, 4])


def test_offsets_of_a_deleted_group_do_not_come_back(tmp_path: Path, plane: str) -> None:
    data, killed = tmp_path / "data", tmp_path / "killed"
    place = {"consumerGroup": GROUP, "topic": TOPIC, "queueId": "0"}
    with broker(data, plane, flushConsumerOffsetInterval="100") as (_, probe):
        make_group(probe, 1)
        create(probe, TOPIC)
        for _ in range(3):
            send(probe, TOPIC, b"x")
        assert probe.call(Frame(15, {**place, "commitOffset": "3"})).code == 0
        saved = data / "config" / "consumerOffset.json"
        assert until(lambda: saved.exists() and f"{TOPIC}@{GROUP}" in saved.read_text())
        fields = {"groupName": GROUP, "removeOffset": "true"}
        assert probe.call(Frame(207, fields)).code == 0
        shutil.copytree(data, killed)
    with broker(killed, plane) as (_, probe):
        assert probe.call(Frame(14, place)).fields.get("offset") != "3"
        table = json.loads((killed / "config" / "consumerOffset.json").read_text())
        assert f"{TOPIC}@{GROUP}" not in table["offsetTable"]

"""A store directory that Java RocketMQ wrote opens as it is: messages, offsets, topics, groups."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqcommon import fastjson
from mqcommon.wire.bodies.topics import TopicConfigSerializeWrapper
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone

GOLDEN = Path(__file__).parent.parent / "golden" / "store"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("java")
    with tarfile.open(GOLDEN / "store.tar.gz") as archive:
        archive.extractall(folder, filter="data")
    return next(path.parent for path in folder.rglob("commitlog"))


@pytest.fixture(scope="module")
def expected() -> list[dict[str, object]]:
    with gzip.open(GOLDEN / "expected.jsonl.gz", "rt") as lines:
        return [row for line in lines if "topic" in (row := json.loads(line))]


@pytest.fixture(scope="module")
def state(root: Path) -> dict[str, object]:
    """The state files as Java left them."""
    names = ("topics.json", "subscriptionGroup.json", "consumerOffset.json")
    return {name: fastjson.loads((root / "config" / name).read_bytes()) for name in names}


@pytest.fixture(scope="module")
def mq(root: Path, state: dict[str, object]) -> Iterator[Standalone]:
    with Standalone(root) as both:
        yield both


def test_its_topics_are_ours(mq: Standalone, state: dict[str, object]) -> None:
    with Probe(mq.broker_address) as probe:
        ours = fastjson.loads(probe.call(Frame(21)).body)
    theirs = state["topics.json"]
    assert theirs["topicConfigTable"].items() <= ours["topicConfigTable"].items()
    assert ours["dataVersion"] == theirs["dataVersion"]


def test_its_committed_offsets_are_ours(mq: Standalone, state: dict[str, object]) -> None:
    table = state["consumerOffset.json"]["offsetTable"]
    assert len(table) > 3
    with Probe(mq.broker_address) as probe:
        for key, queues in table.items():
            topic, _, group = key.partition("@")
            for queue_id, offset in queues.items():
                fields = {"consumerGroup": group, "topic": topic, "queueId": queue_id}
                assert probe.call(Frame(14, fields)).fields["offset"] == str(offset), key


def test_its_messages_are_served(
    mq: Standalone, expected: list[dict[str, object]], state: dict[str, object]
) -> None:
    topics = {row["topic"] for row in expected if str(row["topic"]).startswith("Topic")}
    assert "TopicTest" in topics
    end = max(row["physicalOffset"] for row in expected)
    for topic in topics:
        wanted = {row["physicalOffset"] for row in expected if row["topic"] == topic}
        found = {message.commit_log_offset for message in mq.messages(str(topic))}
        assert found & wanted, topic
        later = found - wanted  # its pending delayed messages may have been delivered by us
        assert all(offset > end for offset in later)


def test_new_messages_go_behind_the_old_ones(mq: Standalone) -> None:
    before = {message.commit_log_offset for message in mq.messages("TopicTest")}
    letters = {"a": "p", "b": "TopicTest", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
    with Probe(mq.broker_address) as probe:
        reply = probe.call(Frame(310, {**letters, "g": "1", "h": "0", "m": "false"}, b"new"))
    assert reply.code == 0
    added = [one for one in mq.messages("TopicTest") if one.commit_log_offset not in before]
    assert [one.body for one in added if "REAL_TOPIC" not in one.properties] == [b"new"]
    assert min(one.commit_log_offset for one in added) > max(before)


def test_its_state_files_keep_their_shape(mq: Standalone, root: Path, state: object) -> None:
    mq.topic("AddedHere")
    text = (root / "config" / "topics.json").read_text()
    assert text.startswith('{\n\t"dataVersion":{\n\t\t"counter":')
    wrapper = TopicConfigSerializeWrapper.from_json(text)
    assert "AddedHere" in wrapper.topic_config_table
    assert state["topics.json"]["topicConfigTable"].keys() < wrapper.topic_config_table.keys()

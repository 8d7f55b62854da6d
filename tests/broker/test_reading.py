"""A bad entry of a state file is logged and set aside; the other entries are kept."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqcommon import fastjson
from mqcommon.wire.bodies.base import BodyError
from mqcommon.wire.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqserver.broker.state.reading import Read, read_groups, read_topics
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone

TOPICS = (read_topics, "topicConfigTable", "topicName")
GROUPS = (read_groups, "subscriptionGroupTable", "groupName")
Kind = tuple[Callable[[bytes], Read[Any]], str, str]

BAD_ROWS: list[tuple[Kind, str, dict[str, object]]] = [
    (TOPICS, "perm", {"perm": 2**31}),
    (TOPICS, "perm", {"perm": 16}),
    (TOPICS, "QueueNums", {"readQueueNums": 70_000}),
    (TOPICS, "QueueNums", {"writeQueueNums": -1}),
    (TOPICS, "readQueueNums", {"readQueueNums": "many"}),
    (TOPICS, "topicFilterType", {"topicFilterType": "TAGS"}),
    (TOPICS, "its topicName is", {"topicName": "other"}),
    (GROUPS, "retryMaxTimes", {"retryMaxTimes": -(2**31) - 1}),
    (GROUPS, "retryQueueNums", {"retryQueueNums": "one"}),
    (GROUPS, "retryQueueNums", {"retryQueueNums": -1}),
    (GROUPS, "its groupName is", {"groupName": "other"}),
]


def text_of(kind: Kind, rows: dict[str, object], **more: object) -> bytes:
    plain = {kind[1]: rows, "dataVersion": {"counter": 7, "timestamp": 1}, **more}
    return fastjson.dumps(plain).encode()


@pytest.mark.parametrize(("kind", "why", "bad"), BAD_ROWS)
def test_a_bad_row_is_set_aside_and_named(kind: Kind, why: str, bad: dict[str, object]) -> None:
    read, table, key = kind
    odd = {key: "odd", **bad}
    found = read(text_of(kind, {"good": {key: "good"}, "odd": odd}))
    plain = found.content.to_plain()
    assert list(plain[table]) == ["good"]
    assert plain["dataVersion"]["counter"] == 7
    ((name, reason, entry),) = found.aside
    assert name == "odd"
    assert why in reason
    assert fastjson.loads(entry) == odd, "the row is kept, whole"


@pytest.mark.parametrize("kind", [TOPICS, GROUPS])
@pytest.mark.parametrize("name", ["a/b", "..", "", "a\x00b", "x" * 263])
def test_a_name_that_rocketmq_cannot_have_made_is_set_aside(kind: Kind, name: str) -> None:
    read, _, key = kind
    found = read(text_of(kind, {"good": {key: "good"}, name: {key: name}}))
    assert [row[0] for row in found.aside] == [name]


@pytest.mark.parametrize("kind", [TOPICS, GROUPS])
@pytest.mark.parametrize("name", ["broker.a", "%RETRY%odd group", "Überweisung", "x" * 262])
def test_an_odd_name_that_rocketmq_may_have_made_is_kept(kind: Kind, name: str) -> None:
    read, table, key = kind
    found = read(text_of(kind, {name: {key: name}}))
    assert not found.aside
    assert list(found.content.to_plain()[table]) == [name]


def test_a_bad_version_begins_anew() -> None:
    found = read_topics(text_of(TOPICS, {"T": {"topicName": "T"}}, dataVersion={"counter": "x"}))
    assert found.content.data_version.counter == 0
    assert [row[0] for row in found.aside] == ["dataVersion"]


@pytest.mark.parametrize("kind", [TOPICS, GROUPS])
def test_a_file_without_a_good_row_is_damaged(kind: Kind) -> None:
    read, table, _ = kind
    for text in (b"{", b"[]", b'{"%s":3}' % table.encode(), text_of(kind, {"odd": {"perm": []}})):
        with pytest.raises(BodyError):
            read(text)
    with pytest.raises(BodyError, match="byte 3"):
        read(b'{"a\xff"')
    with pytest.raises(BodyError, match="position 5"):
        read(b'{"a":')


def test_a_broker_starts_with_what_is_left(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    good = TopicConfig("Good", read_queue_nums=3, write_queue_nums=3).to_plain()
    rows = {"Good": good, "Odd": {**good, "topicName": "Odd", "perm": 2**31}}
    (config / "topics.json").write_bytes(text_of(TOPICS, rows))
    with Standalone(tmp_path) as mq, Probe(mq.broker_address) as probe:
        answer = probe.call(Frame(RequestCode.GET_ALL_TOPIC_CONFIG, {}))
    found = TopicConfigSerializeWrapper.from_json(answer.body).topic_config_table
    assert found["Good"].read_queue_nums == 3
    assert "Odd" not in found
    (aside,) = (tmp_path / "mqstack/quarantine").iterdir()
    assert aside.name == "topics.json.entries.jsonl"
    assert '"name":"Odd"' in aside.read_text()

"""State files with a bad row: it is named and set aside, what is beside it is kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mqclient.wire.bodies.base import BodyError
from mqclient.wire.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from mqclient.wire.codes import RequestCode
from mqclient.wire.frame import Frame
from mqserver.broker.state.reading import GROUPS, TOPICS, Kind
from mqserver.probe import Probe
from mqserver.standalone import Standalone
from mqstore import fastjson

BAD_ROWS: list[tuple[Any, str, dict[str, object]]] = [
    (TOPICS, "topicName", {"perm": 2**31}),
    (TOPICS, "topicName", {"readQueueNums": "many"}),
    (GROUPS, "groupName", {"retryMaxTimes": -(2**31) - 1}),
    (GROUPS, "groupName", {"retryQueueNums": "one"}),
]


def text_of(kind: Any, **rows: object) -> bytes:
    version = {"counter": 7, "timestamp": 1}
    return fastjson.dumps({kind.rows: rows, "dataVersion": version}).encode()


@pytest.mark.parametrize(("kind", "key", "bad"), BAD_ROWS)
def test_a_bad_row_is_set_aside_and_named(
    kind: Kind[Any], key: str, bad: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    text = text_of(kind, good={key: "good"}, odd={key: "odd", **bad})
    kind.check(text)
    assert not caplog.records, "only reading tells"
    plain = kind.read(text).to_plain()
    assert list(plain[kind.rows]) == ["good"]
    assert plain["dataVersion"]["counter"] == 7
    assert f"{kind.file}: odd is set aside" in caplog.text
    assert fastjson.dumps({key: "odd", **bad}) in caplog.text, "the row is in the log, whole"


@pytest.mark.parametrize("kind", [TOPICS, GROUPS])
def test_a_file_without_a_good_row_is_damaged(kind: Kind[Any]) -> None:
    for text in (b"{", b"[]", b'{"%s":3}' % kind.rows.encode(), text_of(kind, odd={"perm": []})):
        with pytest.raises(BodyError):
            kind.check(text)


def test_a_broker_starts_with_what_is_left(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.mkdir()
    good = TopicConfig("Good", 3, 3).to_plain()
    text = text_of(TOPICS, Good=good, Odd={**good, "topicName": "Odd", "perm": 2**31})
    (config / TOPICS.file).write_bytes(text)
    with Standalone(tmp_path) as mq, Probe(mq.broker_address) as probe:
        answer = probe.call(Frame(RequestCode.GET_ALL_TOPIC_CONFIG, {}))
    rows = TopicConfigSerializeWrapper.from_json(answer.body).topic_config_table
    assert rows["Good"].read_queue_nums == 3
    assert "Odd" not in rows

"""State files, checkpoint and key look-ups of every store a Java broker wrote."""

from __future__ import annotations

import gzip
import json
import struct
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqcommon import _core, fastjson
from mqcommon.wire.bodies.groups import SubscriptionGroupWrapper
from mqcommon.wire.bodies.topics import TopicConfigSerializeWrapper
from tests.common.golden import GOLDEN, extract

STORES = (
    "store",
    "store-crashed",
    "store-crashed-recovered",
    "store-damaged",
    "store-damaged/after",
    "store-ext",
    "store-lmq",
)
TABLES = {
    "topics.json": TopicConfigSerializeWrapper,
    "subscriptionGroup.json": SubscriptionGroupWrapper,
}
"""Files that our broker reads into rows; the other files are maps of names to numbers."""


@pytest.fixture(params=STORES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return extract(request.param, tmp_path)


def typed(value: Any, name: str = "") -> Any:
    """Give maps and arrays the types that Java has for them."""
    if isinstance(value, dict):
        numbers = value and all(key.isdigit() for key in value)
        return {int(k) if numbers else k: typed(v, k) for k, v in value.items()}
    return tuple(value) if name == "bitPos" and isinstance(value, list) else value


def pieces(text: str) -> list[str]:
    """The text in pieces that a map's order does not change."""
    return sorted(piece for line in text.splitlines() for piece in line.rstrip(",").split(","))


def test_state_files_are_read_whole_and_written_as_by_java(root: Path) -> None:
    files = [path for path in (root / "config").iterdir() if path.is_file()]
    assert "topics.json" in {path.name for path in files}
    for path in files:
        text = path.read_text("utf-8")
        value = fastjson.loads(text)
        assert pieces(fastjson.dumps(typed(value), pretty=True)) == pieces(text), path.name
        table = TABLES.get(path.name.removesuffix(".bak"))
        if table is not None:
            assert table.from_json(text).to_plain() == value, path.name


def test_committed_offsets_are_those_of_the_file(root: Path) -> None:
    light = root / "config" / "lmqConsumerOffset.json"
    path = light if light.exists() else root / "config" / "consumerOffset.json"
    table = fastjson.loads(path.read_bytes())["offsetTable"] if path.exists() else {}
    assert mqstore.open(root).committed() == typed(table)


def test_the_checkpoint_holds_three_times_and_zeros(root: Path) -> None:
    data = (root / "checkpoint").read_bytes()
    clean, locked, times = _core.Scan(root).state()
    assert times == struct.unpack_from(">qqq", data)
    assert clean is not (root / "abort").exists()
    assert not locked
    assert len(data) == 4096
    assert not any(data[24:])
    assert (root / "lock").read_bytes() == b"lock"


def test_a_key_finds_what_the_broker_found(tmp_path: Path) -> None:
    reader = mqstore.open(extract("store", tmp_path))
    lines = gzip.decompress((GOLDEN / "store" / "querykeys.jsonl.gz").read_bytes()).splitlines()
    cases = [json.loads(line) for line in lines]
    assert len(cases) > 30
    for case in cases:
        found = reader.find(case["topic"], case["key"])[::-1]  # a broker sorts them
        assert [
            {
                "physicalOffset": message.commit_log_offset,
                "topic": message.topic,
                "queueId": message.queue_id,
                "queueOffset": message.queue_offset,
            }
            for message in found
        ] == case["messages"], case["key"]

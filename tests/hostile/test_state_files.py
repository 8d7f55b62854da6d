"""State files that are wrong: each is read, entry for entry, or refused with one clear error."""

from __future__ import annotations

import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mqcommon import fastjson
from mqcommon.files import StateFile
from mqcommon.wire.bodies.base import BodyError
from mqserver.broker.state import reading
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load
from mqserver.namesrv import kv
from mqstore import Settings, Store, StoreDamaged
from tests.examples import examples
from tests.hostile.inputs import bodies, spoiled_bytes
from tests.hostile.test_registrations import TOPIC

TOPICS = {
    "topicConfigTable": {"T": TOPIC, "Ü": {**TOPIC, "topicName": "Ü", "perm": 4}},
    "dataVersion": {"counter": 3, "timestamp": 1_700_000_000_000},
}
GROUP = {
    "groupName": "g",
    "consumeEnable": True,
    "consumeFromMinEnable": True,
    "retryQueueNums": 1,
    "retryMaxTimes": 16,
    "brokerId": 0,
    "whichBrokerWhenConsumeSlowly": 1,
}
GROUPS = {
    "subscriptionGroupTable": {"g": GROUP, "h": {**GROUP, "groupName": "h"}},
    "dataVersion": {"counter": 3, "timestamp": 1},
}
FILTER = {
    "consumerGroup": "g",
    "topic": "T",
    "expression": "a > 5",
    "expressionType": "SQL92",
    "bornTime": 1,
    "clientVersion": 7,
    "deadTime": 0,
    "dead": False,
    "bloomFilterData": {"bitPos": [1, 2, 3], "bitNum": 112},
}
FILTERS = {"filterDataByTopic": {"T": {"topic": "T", "groupFilterData": {"g": FILTER}}}}
OFFSETS = {"offsetTable": {"T@g": {"0": 5, "1": 7}, "%RETRY%g@g": {"0": 2}}}
DELAYS = {"offsetTable": {"1": 7, "2": 0, "18": 3}}
TABLES = {"configTable": {"ORDER_TOPIC_CONFIG": {"T": "b:4"}, "a": {"k": "v"}}}


def strict(text: bytes) -> Any:
    """The parsed JSON; None if it is not valid."""
    try:
        return fastjson.loads(text.decode())
    except ValueError:
        return None


Read = Callable[[bytes], reading.Read[Any]]


def rows_of(text: bytes, table: str) -> dict[str, Any]:
    found = strict(text)
    rows = found.get(table) if isinstance(found, dict) else None
    return rows if isinstance(rows, dict) else {}


def check_rows(text: bytes, read: Read, table: str) -> None:
    """Each row of the text is kept or set aside; only a file without a good one is refused."""
    try:
        found = read(text)
    except BodyError as error:
        assert str(error)
        return
    rows = rows_of(text, table)
    kept = getattr(found.content, table_attribute(table))
    aside = {name for name, _, _ in found.aside} - {"dataVersion"}
    assert kept.keys() | aside == rows.keys()
    assert not kept.keys() & aside
    for name, row in kept.items():
        assert reading.bad_name(name) is None
        again = type(row).from_json(row.to_json())
        assert again == row


def table_attribute(table: str) -> str:
    return {
        "topicConfigTable": "topic_config_table",
        "subscriptionGroupTable": "subscription_group_table",
    }[table]


@given(text=bodies(TOPICS))
@examples(150)
def test_topics(text: bytes) -> None:
    check_rows(text, reading.read_topics, "topicConfigTable")


@given(text=bodies(GROUPS))
@examples(150)
def test_groups(text: bytes) -> None:
    check_rows(text, reading.read_groups, "subscriptionGroupTable")


@given(text=bodies(FILTERS))
@examples(150)
def test_filters(text: bytes) -> None:
    try:
        found = reading.read_filters(text)
    except BodyError:
        return
    by_topic = rows_of(text, "filterDataByTopic")
    inner = [of_topic.get("groupFilterData") for of_topic in by_topic.values() if of_topic] if all(
        isinstance(of_topic, dict) for of_topic in by_topic.values()
    ) else []  # fmt: skip
    if inner and all(isinstance(rows, dict) for rows in inner):
        assert len(found.content) + len(found.aside) == sum(map(len, inner))


@given(text=bodies(TABLES))
@examples(150)
def test_key_values(text: bytes) -> None:
    try:
        tables, aside = kv.read_tables(text)
    except ValueError:
        return
    for namespace, rows in rows_of(text, "configTable").items():
        if not isinstance(rows, dict):
            assert namespace in {name for name, _, _ in aside}
            continue
        missing = {key for key, value in rows.items() if value is not None} - tables[
            namespace
        ].keys()
        assert {f"{namespace} {key}" for key in missing} <= {name for name, _, _ in aside}


LINES = st.one_of(
    st.sampled_from(["brokerPermission=4", "brokerPermission=99", "noSuchKey=1", "listenPort=x"]),
    st.text(st.characters(codec="utf-8"), max_size=30),
)


@given(
    text=st.one_of(st.lists(LINES, max_size=5).map("\n".join), st.text("=\\u0 k\n#", max_size=30))
)
@example("brokerPermission=4\\")
@example("a=\\ud800")
@examples(200)
def test_online_changes(tmp_path: Path, text: str) -> None:
    path = tmp_path / "config/broker.override.properties"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    loaded = load(BROKER, override=lambda _: str(path))
    assert loaded.values["brokerPermission"] in (4, 6)


number = itertools.count()


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stores")


def opened(root: Path) -> dict[str, dict[int, int]]:
    settings = Settings(commit_log_file_bytes=1 << 16, allocate_step_bytes=1 << 16)
    with Store(root, settings, create=True) as store:
        return store.committed_all()


@contextmanager
def a_store(roots: Path, name: str, text: bytes) -> Iterator[Path]:
    """A new store with one state file, gone afterwards."""
    root = roots / str(next(number))
    (root / "config").mkdir(parents=True)
    (root / "config" / name).write_bytes(text)
    yield root
    shutil.rmtree(root)


@given(text=bodies(OFFSETS))
@examples(60)
def test_consumer_offsets(roots: Path, text: bytes) -> None:
    with a_store(roots, "consumerOffset.json", text) as root:
        check_offsets(root, text)


def check_offsets(root: Path, text: bytes) -> None:
    """Each offset of the text is in the store or set aside, or the store is refused."""
    try:
        found = opened(root)
    except StoreDamaged as error:
        assert "begin without it" in str(error)
        return
    if b"\\ud" in text.lower():
        return  # half of a surrogate pair: its stand-in differs between the readers
    rows = rows_of(text, "offsetTable")
    kept = root / "mqstack/quarantine/consumerOffset.json.entries.jsonl"
    aside = [json.loads(line)["name"] for line in kept.open()] if kept.exists() else []
    for key, queues in rows.items():
        if key in aside:
            continue
        for queue_id in queues:
            is_aside = f"{key} {queue_id}" in aside
            assert is_aside or int(queue_id) in found[key], (key, queue_id)


@given(text=bodies(DELAYS))
@examples(40)
def test_delay_offsets(roots: Path, text: bytes) -> None:
    with a_store(roots, "delayOffset.json", text) as root:
        try:
            opened(root)
        except StoreDamaged as error:
            assert "begin without it" in str(error)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StateFile]:
    yield StateFile(tmp_path_factory.mktemp("saved") / "state.json")


OLD, NEW = b'{"old": [1, 2, 3]}', b'{"new": [4, 5, 6, 7]}'


@given(text=st.one_of(spoiled_bytes(NEW), st.binary(max_size=30)))
@example(b"")
@example(NEW)
@examples(60)
def test_what_was_saved_is_read_or_its_previous_copy(saved: StateFile, text: bytes) -> None:
    saved.save(OLD)
    saved.save(NEW)
    stamp = os.stat(saved.path).st_mtime_ns
    Path(saved.path).write_bytes(text)
    os.utime(saved.path, ns=(stamp, stamp))
    found = StateFile(saved.path).load(bytes)
    assert found == (NEW if text == NEW else OLD)

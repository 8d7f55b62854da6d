"""Queues and index as numpy arrays on the files, columns, ids, and a store at a glance."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

import mqstore
from mqstore.offline.export import export
from tests.common.golden import GOLDEN, expected
from tests.missing_packages import hide

pa = pytest.importorskip("pyarrow")


@pytest.fixture
def reader(golden_store: Any) -> mqstore.StoreReader:
    return mqstore.open(golden_store("store"))


def test_queue_views_lie_on_the_files(reader: mqstore.StoreReader) -> None:
    for queue in reader.queues():
        views = list(reader.queue_views(queue.topic, queue.queue_id))
        copied = reader.queue_units(queue.topic, queue.queue_id)
        assert [u for view in views for u in view.units.tolist()] == copied.tolist()
        for view in views:
            assert not view.units.flags.owndata
            assert not view.units.flags.writeable
    long = max(reader.queues(), key=lambda q: q.message_count)
    assert [v.first_offset for v in reader.queue_views(long.topic, long.queue_id)] == [0, 300]
    assert list(reader.queue_views("None", 0)) == []


def test_a_view_of_a_full_file_and_of_an_empty_one(tmp_path: Path) -> None:
    directory = tmp_path / "store" / "consumequeue" / "T" / "0"
    directory.mkdir(parents=True)
    (tmp_path / "store" / "commitlog").mkdir()
    unit = (7).to_bytes(8, "big") + (9).to_bytes(4, "big") + (1).to_bytes(8, "big")
    (directory / f"{0:020}").write_bytes(unit * 3)
    (directory / f"{60:020}").write_bytes(unit + bytes(40))
    (directory / f"{120:020}").write_bytes(b"")
    views = list(mqstore.open(tmp_path / "store").queue_views("T", 0))
    assert [(v.first_offset, len(v.units)) for v in views] == [(0, 3), (3, 1)]
    assert views[0].units["physical_offset"].tolist() == [7, 7, 7]


def test_index_views_hold_what_java_wrote(reader: mqstore.StoreReader) -> None:
    views = list(reader.index_views())
    text = gzip.decompress((GOLDEN / "store" / "index.jsonl.gz").read_bytes()).decode()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [view.name for view in views] == sorted({line["file"] for line in lines})
    entries = [line for line in lines if "keyHash" in line]
    got = [e for view in views for e in view.entries[1:].tolist()]
    assert [e[:2] for e in got] == [(e["keyHash"], e["phyOffset"]) for e in entries]
    for view in views:
        assert not view.entries.flags.owndata
        assert len(view.slots) == 100
        assert 0 < view.begin_timestamp_ms <= view.end_timestamp_ms


def test_columns_are_those_of_the_records(reader: mqstore.StoreReader) -> None:
    topic = mqstore.Wanted(topic="TopicTest")
    batches = list(reader.batches(["topic", "queue_offset", "body"], wanted=topic))
    table = pa.Table.from_batches(batches)
    messages = list(reader.records(topic="TopicTest"))
    assert table.column_names == ["topic", "queue_offset", "body"]
    assert table["body"].to_pylist() == [m.body for m in messages]
    assert sum(b.num_rows for b in reader.batches()) == 605


def test_columns_go_on_behind_damage(golden_store: Any) -> None:
    reader = mqstore.open(golden_store("store-damaged"))
    gaps: list[mqstore.Gap] = []
    wanted = mqstore.Wanted(check_crc=True)
    batches = reader.batches(["commit_log_offset"], wanted=wanted, on_gap=gaps.append)
    offsets = [at for batch in batches for at in batch["commit_log_offset"].to_pylist()]
    assert gaps == [mqstore.Gap(219148, 219344)]
    assert (len(offsets), max(offsets)) == (1028, 219932)


def test_ids_and_times(reader: mqstore.StoreReader, golden_store: Any) -> None:
    messages = list(reader.records())
    for message in (messages[0], messages[-1], messages[300]):
        assert message.msg_id in [m.msg_id for m in reader.find_id(message.msg_id)]
        (found,) = reader.find_id(message.offset_msg_id)
        assert found.commit_log_offset == message.commit_log_offset
    assert reader.find_id("no such id") == []
    middle = messages[300].store_timestamp_ms
    early = list(reader.records(end_ms=middle - 1))
    late = list(reader.records(begin_ms=middle))
    assert len(early) + len(late) == 605
    assert [m.commit_log_offset for m in late] == [
        m.commit_log_offset for m in messages if m.store_timestamp_ms >= middle
    ]
    assert reader.records(tag="TagA", begin_ms=middle)
    # A store that crashed before its index was written: the log itself is searched.
    crashed = mqstore.open(golden_store("store-crashed"))
    newest = crashed.last_message()
    assert newest is not None
    assert [m.body for m in crashed.find_id(newest.msg_id)] == [newest.body]


@pytest.mark.parametrize(
    ("name", "word", "conf"),
    [
        ("store", "clean", {}),
        ("store-crashed", "crashed", {}),
        (
            "store-ext",
            "clean",
            {"enableConsumeQueueExt": "true", "mappedFileSizeConsumeQueueExt": "2048"},
        ),
        ("store-lmq", "clean", {"enableLmq": "true", "enableMultiDispatch": "true"}),
    ],
)
def test_stat(golden_store: Any, name: str, word: str, conf: dict[str, str]) -> None:
    reader = mqstore.open(golden_store(name))
    stat = reader.stat()
    records = [line for line in expected(name) if "topic" in line]
    assert stat.condition.word == word
    assert stat.first_store_timestamp_ms == records[0]["storeTimestamp"]
    assert stat.last_store_timestamp_ms == records[-1]["storeTimestamp"]
    end = records[-1]["physicalOffset"] + records[-1]["storeSize"]
    assert (stat.begin_physical_offset, stat.end_physical_offset) == (0, end)
    assert stat.broker_conf == {
        "storePathRootDir": str(golden_store(name)),
        "mappedFileSizeCommitLog": "65536",
        "mappedFileSizeConsumeQueue": "6000",
        "maxHashSlotNum": "100",
        "maxIndexNum": "400",
        **conf,
    }
    assert {part.name for part in stat.parts} >= {"commitlog", "consumequeue", "index"}
    assert stat.queue_count == len(reader.queues())


def test_stat_of_a_store_in_use_and_of_an_empty_one(tmp_path: Path) -> None:
    settings = mqstore.Settings(commit_log_file_bytes=1 << 16, min_free_bytes=0)
    with mqstore.Store(tmp_path / "store", settings, create=True) as store:
        stat = mqstore.open(tmp_path / "store").stat()
        assert (stat.condition.word, stat.first_store_timestamp_ms) == ("in use", None)
        store.put("T", b"x")
        assert mqstore.open(tmp_path / "store").stat().end_physical_offset > 0
    stat = mqstore.open(tmp_path / "store").stat()
    assert (stat.condition.word, stat.message_count) == ("clean", 1)
    assert stat.checkpoint is not None


def test_state_files_that_are_damaged_are_replaced_by_their_copy(tmp_path: Path) -> None:
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    (tmp_path / "store" / "commitlog").mkdir()
    (config / "consumerOffset.json").write_text('{"offsetTable":{"T@g":{0:5')
    (config / "consumerOffset.json.bak").write_text('{"offsetTable":{"T@g":{0:4,1:7}}}')
    (config / "lmqConsumerOffset.json").write_text(json.dumps({"lmqOffsetTable": {"%LMQ%a@g": 3}}))
    reader = mqstore.open(tmp_path / "store")
    assert reader.committed() == {"T@g": {0: 4, 1: 7}, "%LMQ%a@g": {0: 3}}
    assert reader.stat().groups == ("g",)


@pytest.mark.parametrize(
    "text",
    ["[]", '{"offsetTable":[]}', '{"offsetTable":{"T@g":7}}',
     '{"offsetTable":{"T@g":{"x":1,0:"y"}}}', '{"offsetTable":{"T@g":{0:null}}}',
     '{"lmqOffsetTable":{"T@g":"z"}}', "{", "\\xff"],
)  # fmt: skip
def test_json_that_is_no_table_is_an_empty_one(tmp_path: Path, text: str) -> None:
    config = tmp_path / "store" / "config"
    config.mkdir(parents=True)
    (tmp_path / "store" / "commitlog").mkdir()
    for name in ("consumerOffset", "lmqConsumerOffset", "delayOffset", "topics"):
        (config / f"{name}.json").write_text(text)
    reader = mqstore.open(tmp_path / "store")
    assert not any(reader.committed().values())
    assert reader.stat().topics == ()
    assert export(reader, tmp_path / "out.csv").messages == 0


def test_what_a_newer_rocketmq_left_is_said(golden_store: Any, tmp_path: Path) -> None:
    root = shutil.copytree(golden_store("store"), tmp_path / "store")
    assert mqstore.open(root).unread() == []
    queue = root / "batchconsumequeue" / "TopicBatches" / "0"
    queue.mkdir(parents=True)
    (queue / f"{0:020}").write_bytes(bytes(46))
    (root / "timerlog").mkdir()
    (root / "timerlog" / f"{0:020}").write_bytes(bytes(100))
    said = dict(mqstore.open(root).stat().unread)
    assert "RocketMQ 5" in said["timerlog"]
    assert any(path.startswith("batchconsumequeue") for path in said)
    assert len(list(mqstore.open(root).records())) == 605


def test_views_without_numpy_say_what_to_install(monkeypatch, golden_store):
    reader = mqstore.open(golden_store("store"))
    queue = reader.queues()[0]
    hide(monkeypatch, "numpy")
    for look in (
        lambda: list(reader.queue_views(queue.topic, queue.queue_id)),
        lambda: list(reader.index_views()),
        lambda: reader.queue_units(queue.topic, queue.queue_id),
    ):
        with pytest.raises(ImportError, match=r"pip install 'mqstack\[views\]'"):
            look()

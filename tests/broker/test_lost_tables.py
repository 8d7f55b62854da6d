"""Lost or damaged state files: the broker rebuilds them from the store, or refuses to start."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mqcommon import core_logs, fastjson
from mqcommon.wire.bodies.groups import SubscriptionGroupWrapper
from mqcommon.wire.bodies.topics import TopicConfigSerializeWrapper
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqserver.broker.broker import Broker
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqstore import Settings, Store, StoreDamaged

SETTINGS = {
    "brokerName": "b",
    "bindAddress": "127.0.0.1",
    "listenPort": "0",
    "fastPortEnable": "false",
    "minFreeBytes": "1048576",
}
DAMAGED = (b"", b"{", b'{"topicConfigTable":[]}', b"\xff\xfe", b'{"topicConfigTable":{"T":7}}')


def fill(root: Path) -> None:
    """A store as its broker leaves it: topics, groups and offsets."""
    with Store(root, Settings(commit_log_file_bytes=1 << 20), create=True) as store:
        for topic, queue_id in (("Orders", 0), ("Orders", 3), ("%RETRY%readers", 0), ("Other", 1)):
            store.put(topic, b"body", queue_id=queue_id)
        store.commit("committers", "Orders", 0, 1)
        store.save_state("topics.json", _topics(Orders=(4, 4), Other=(2, 2)))
        store.save_state("subscriptionGroup.json", _groups("readers", "committers"))
        store.save_state("topics.json", _topics(Orders=(4, 6), Other=(2, 2)))


def _topics(**queues: tuple[int, int]) -> bytes:
    rows = {
        name: {"topicName": name, "readQueueNums": reads, "writeQueueNums": writes, "perm": 6}
        for name, (reads, writes) in queues.items()
    }
    return fastjson.dumps({"topicConfigTable": rows, "dataVersion": {"counter": 3}}).encode()


def _groups(*names: str) -> bytes:
    rows = {name: {"groupName": name, "retryMaxTimes": 3} for name in names}
    return fastjson.dumps({"subscriptionGroupTable": rows}).encode()


def broker(root: Path, **settings: str) -> Broker:
    flags = {**SETTINGS, "storePathRootDir": str(root), **settings}
    return Broker(load(BROKER, flags=pairs(flags, "t")))


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Path]:
    fill(tmp_path / "store")
    yield tmp_path / "store"


def tables(root: Path, **settings: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Topics and groups of a broker that starts on the store."""
    started = broker(root, **settings)
    started.start()
    try:
        context = started.context
        topics = context.topics.wrapper().topic_config_table
        return topics, context.groups.all().subscription_group_table
    finally:
        started.stop()


@pytest.mark.parametrize("damage", DAMAGED)
def test_a_damaged_table_is_taken_from_its_previous_copy(root: Path, damage: bytes) -> None:
    (root / "config/topics.json").write_bytes(damage)
    topics, _ = tables(root)
    assert topics["Orders"].write_queue_nums == 4, "the copy has the version before"
    assert (root / "mqstack/quarantine/topics.json").read_bytes() == damage


@pytest.mark.parametrize("damage", [None, *DAMAGED])
def test_a_previous_copy_gets_the_topics_and_groups_of_the_store(
    root: Path, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    with Store(root) as store:
        for queue_id in range(7):
            store.put("Orders", b"in a queue that the copy does not know", queue_id=queue_id)
        store.put("Newest", b"body", queue_id=1)
        store.commit("newcomers", "Newest", 1, 1)
        store.save_state("subscriptionGroup.json", _groups("readers", "committers", "newcomers"))
    lose_newest(root, "topics.json", damage)
    lose_newest(root, "subscriptionGroup.json", damage)
    topics, groups = tables(root)
    assert topics["Newest"].read_queue_nums == 2
    assert (topics["Orders"].read_queue_nums, topics["Orders"].write_queue_nums) == (7, 4)
    assert topics["Other"].write_queue_nums == 2, "what the copy knows stays"
    assert groups["readers"].retry_max_times == 3, "what the copy knows stays"
    assert "newcomers" in groups
    assert "topics.json comes from its previous copy" in caplog.text
    assert "Newest, Orders" in caplog.text


OTHER_CONTENTS = {
    "topics.json": b'{"subscriptionGroupTable":{},"dataVersion":{"counter":9}}',
    "subscriptionGroup.json": b'{"topicConfigTable":{},"dataVersion":{"counter":9}}',
    "consumerOffset.json": b'{"topicConfigTable":{},"dataVersion":{"counter":9}}',
    "delayOffset.json": b'{"offsetTable":{"Orders@readers":{0:1}}}',
}


@pytest.mark.parametrize("content", ["other", "{}"])
@pytest.mark.parametrize("name", OTHER_CONTENTS)
def test_the_content_of_another_file_does_not_count_as_empty(
    root: Path, name: str, content: str
) -> None:
    damaged = OTHER_CONTENTS[name] if content == "other" else content.encode()
    with Store(root) as store:
        if name == "delayOffset.json":
            for _ in range(2):
                store.save_state(name, b'{"offsetTable":{3:0}}')
        if name == "consumerOffset.json":
            store.commit("committers", "Orders", 3, 1)
    path = root / "config" / name
    for _ in range(2):
        copy = path.with_suffix(".json.bak")
        path.write_bytes(damaged)
        stamp = path.stat().st_mtime_ns + 5_000_000_000
        os.utime(path, ns=(stamp, stamp))
        if copy.exists():
            found, groups = tables(root, damagePolicy="refuse")
            assert "Orders" in found
            assert "readers" in groups
            with Store(root) as store:
                assert store.committed("committers", "Orders", 0) == 1
        path.write_bytes(damaged)
        copy.unlink(missing_ok=True)
    with pytest.raises(StoreDamaged, match=name):
        tables(root, damagePolicy="refuse")


def test_a_missing_offset_file_is_restored_or_reported(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with Store(root) as store:
        store.commit("committers", "Orders", 3, 1)
    path = root / "config/consumerOffset.json"
    path.unlink()
    with Store(root) as store:
        core_logs.deliver()
        assert store.committed("committers", "Orders", 0) == 1
    assert "consumerOffset.json is missing: its previous copy is used" in caplog.text
    lose(root, "consumerOffset.json", None)
    with Store(root) as store:
        core_logs.deliver()
        assert store.committed("committers", "Orders", 0) is None
    assert "state file and its previous copy are missing" in caplog.text


def test_a_lost_record_of_the_clean_stop_is_reported(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "mqstack/closed.json").unlink()
    tables(root)
    core_logs.deliver()
    assert "closed.json is missing or damaged" in caplog.text


def test_a_state_file_from_another_writer_is_read_and_logged(
    root: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = root / "config/topics.json"
    stamp = path.stat().st_mtime_ns + 1_000_000_000
    path.write_bytes(_topics(Orders=(5, 5)))
    os.utime(path, ns=(stamp, stamp))
    with caplog.at_level(logging.INFO):
        topics, _ = tables(root)
        core_logs.deliver()
    assert topics["Orders"].write_queue_nums == 5
    assert "accepted a state file of another program" in caplog.text


def test_any_flipped_bit_is_found_and_the_previous_copy_is_taken(root: Path) -> None:
    path = root / "config/topics.json"
    whole, stamp = path.read_bytes(), path.stat().st_mtime_ns
    with Store(root) as store:
        for bit in range(0, len(whole) * 8, 13):
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            path.write_bytes(flipped)
            os.utime(path, ns=(stamp, stamp))
            assert store.load_state("topics.json") == _topics(Orders=(4, 4), Other=(2, 2))


@pytest.mark.parametrize("damage", [None, *DAMAGED])
def test_topics_that_no_file_tells_are_made_of_their_queues(
    root: Path, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    lose(root, "topics.json", damage)
    topics, _ = tables(root)
    assert (topics["Orders"].read_queue_nums, topics["Orders"].write_queue_nums) == (4, 4)
    assert (topics["Other"].write_queue_nums, topics["Other"].perm) == (2, 6)
    assert topics["%RETRY%readers"].write_queue_nums == 1
    assert topics["SCHEDULE_TOPIC_XXXX"].write_queue_nums == 18, "a built-in topic stays as it is"
    assert "rebuilt 3 topics from the store" in caplog.text
    assert "%RETRY%readers, Orders, Other" in caplog.text
    saved = TopicConfigSerializeWrapper.from_json((root / "config/topics.json").read_bytes())
    assert saved.topic_config_table["Orders"].write_queue_nums == 4


@pytest.mark.parametrize("damage", [None, b"{"])
def test_missing_groups_are_rebuilt_from_offsets_and_retries(
    root: Path, damage: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    lose(root, "subscriptionGroup.json", damage)
    _, groups = tables(root, autoCreateSubscriptionGroup="false")
    assert {"readers", "committers"} <= groups.keys()
    assert "rebuilt 2 groups from the store" in caplog.text
    saved = (root / "config/subscriptionGroup.json").read_bytes()
    assert "readers" in SubscriptionGroupWrapper.from_json(saved).subscription_group_table


def test_a_new_store_warns_of_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    tables(tmp_path / "new")
    assert "rebuilt" not in caplog.text


def test_damaged_filters_are_dropped(root: Path, caplog: pytest.LogCaptureFixture) -> None:
    (root / "config/consumerFilter.json").write_bytes(b"{")
    topics, _ = tables(root)
    assert "Orders" in topics
    assert "consumers send their filters again" in caplog.text


@pytest.mark.parametrize("damage", [b"", bytes(20), b"[]"])
def test_damage_of_unasked_names_is_logged_and_they_stay(
    root: Path, damage: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    (root / "config/unasked.json").write_bytes(damage)
    topics, _ = tables(root)
    assert "Orders" in topics
    assert "not deleted when they are unused" in caplog.text


def lose_newest(root: Path, name: str, damage: bytes | None) -> None:
    if damage is None:
        (root / "config" / name).unlink()
    else:
        (root / "config" / name).write_bytes(damage)


def lose(root: Path, name: str, damage: bytes | None) -> None:
    for path in (root / "config" / name, root / "config" / f"{name}.bak"):
        if damage is None:
            path.unlink(missing_ok=True)
        else:
            path.write_bytes(damage)


@pytest.mark.parametrize("name", ["topics.json", "subscriptionGroup.json"])
def test_a_table_is_not_made_anew_where_damage_is_to_be_refused(root: Path, name: str) -> None:
    lose(root, name, b"{")
    with pytest.raises(StoreDamaged, match=r"at position 1, and no previous copy can be used"):
        tables(root, damagePolicy="refuse")


@pytest.mark.parametrize("name", ["consumerOffset.json", "delayOffset.json", "topics.json"])
def test_a_refusal_is_one_line_and_its_command_works(root: Path, name: str) -> None:
    lose(root, name, b'{"offsetTable":{"T@g":{0:')
    command = [sys.executable, "-m", "mqserver.cli", "broker", "start"]
    flags = {**SETTINGS, "storePathRootDir": str(root), "damagePolicy": "refuse"}
    for key, value in flags.items():
        command += ["--set", f"{key}={value}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("mqserver: ")]
    assert "Traceback" not in done.stderr
    assert line.startswith(f"mqserver: {root}/config/{name}: ")
    assert "at byte 25" in line or "at position 25" in line
    subprocess.run(["bash", "-c", line.partition("begin without it: ")[2]], check=True)
    topics, _ = tables(root, damagePolicy="refuse")
    assert "Orders" in topics


def test_a_topic_that_was_made_anew_is_read(root: Path) -> None:
    lose(root, "topics.json", b"{")
    started = broker(root)
    started.start()
    try:
        fields = {"topic": "Orders", "queueId": "3"}
        from mqserver.embedded.raw_client import ask

        answer = ask(f"127.0.0.1:{started.port}", Frame(RequestCode.GET_MAX_OFFSET, fields))
        assert answer.fields["offset"] == "1"
    finally:
        started.stop()


def verified(root: Path) -> str:
    command = [str(Path(sys.executable).parent / "mqstore"), "verify", str(root)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60).stdout


def test_verify_names_missing_and_foreign_state_files(root: Path) -> None:
    tables(root)
    with Store(root) as store:
        store.commit("committers", "Orders", 3, 1)
    assert "config/" not in verified(root)
    (root / "config/consumerOffset.json").unlink()
    assert "config/consumerOffset.json" in verified(root), "the copy is left"
    lose(root, "consumerOffset.json", None)
    assert "config/consumerOffset.json" in verified(root), "the checksum is left"
    path = root / "config/topics.json"
    path.write_bytes(OTHER_CONTENTS["topics.json"])
    assert "content of another file; its previous copy can be read" in verified(root)
    (root / "mqstack/closed.json").unlink()
    assert "mqstack/closed.json" in verified(root)

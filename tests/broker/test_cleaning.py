"""What an operator has deleted on a running broker, and settings of cleaning that change online."""

from __future__ import annotations

from pathlib import Path

import pytest

from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.loaded import SettingsError
from mqserver.config.settings import broker_settings, changed_online
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import Settings, Store
from tests.inside import store_of
from tests.waiting import until


@pytest.fixture(scope="module")
def mq():
    with Standalone(settings={"mappedFileSizeCommitLog": str(1 << 20)}) as both:
        both.topic("T")
        yield both


@pytest.fixture
def ask(mq):
    with Probe(mq.broker_address, timeout=60) as probe:
        yield probe.call


def fill(store: Store, topic: str, count: int) -> None:
    """One message fills a file of the log."""
    first = store.max_offset(topic, 0)
    for _ in range(count):
        store.put(topic, bytes(600_000))
    assert until(lambda: store.max_offset(topic, 0) == first + count)
    store.flush()


def test_expired_files_go_at_once(mq, ask):
    store = store_of(mq)
    fill(store, "T", 3)
    assert ask(Frame(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == 0
    store.set_cleaning(Settings(reserved_hours=0).as_dict())
    assert store.min_physical_offset() == 0, "nothing was old"
    assert ask(Frame(RequestCode.DELETE_EXPIRED_COMMITLOG)).code == 0
    assert until(lambda: store.min_offset("T", 0) == 2)


def test_queues_of_topics_that_do_not_exist_are_emptied(mq, ask):
    store = store_of(mq)
    fill(store, "Gone", 1)
    kept = store.min_offset("T", 0)
    assert ask(Frame(RequestCode.CLEAN_UNUSED_TOPIC)).code == 0
    assert (store.min_offset("Gone", 0), store.max_offset("Gone", 0)) == (1, 1)
    assert store.min_offset("T", 0) == kept < store.max_offset("T", 0)
    assert ask(Frame(RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)).code == 0


def test_settings_of_cleaning_change_online(mq, ask):
    changed = ask(Frame(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=48\n"))
    assert changed.code == 0
    text = ask(Frame(RequestCode.GET_BROKER_CONFIG)).body.decode()
    assert "fileReservedTime=48\n" in text
    host, port = mq.advertised_address.split(":")
    for line in (f"brokerIP1={host}", f"brokerIP2={host}", f"haListenPort={int(port) + 1}"):
        assert f"{line}\n" in text, "as RocketMQ, which shows the addresses that it found"
    refused = ask(Frame(RequestCode.UPDATE_BROKER_CONFIG, body=b"deleteWhen=noon\n"))
    assert refused.code == 1
    assert "deleteWhen" in (refused.remark or "")


@pytest.mark.parametrize("text", ["", "24", "4am", "04,05", "-1"])
def test_a_bad_hour_is_refused_at_the_start(tmp_path: Path, text: str):
    flags = {"storePathRootDir": str(tmp_path), "deleteWhen": text}
    with pytest.raises(SettingsError, match="deleteWhen"):
        broker_settings(load(BROKER, flags=pairs(flags, "flags")))


def test_only_what_somebody_chose_changes_the_stores_settings():
    flags = {"fileReservedTime": "5", "mappedFileSizeCommitLog": "65536"}
    store = Settings(delete_when="07", reserved_hours=9)
    loaded = load(BROKER, flags=pairs(flags, "flags"))
    changed = changed_online(store, loaded)
    assert (changed.reserved_hours, changed.delete_when) == (5, "07")
    assert changed.commit_log_file_bytes is None, "not a setting that changes online"

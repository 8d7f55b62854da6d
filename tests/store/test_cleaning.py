"""Old files go, what remains stays whole; offsets of groups are looked at, moved and removed."""

import dataclasses

import pytest

import mqstore
from mqstore import Settings, Store, decode_messages
from tests.common.golden import extract
from tests.store.test_engine import SMALL, wait_for

AT_ONCE = dataclasses.replace(SMALL, reserved_hours=0, delete_log_pause_ms=0)
"""Every stored message is old enough to delete."""
LOG_FILE = 1 << 16
"""Size of a log file in the stores that Java wrote."""
BODY = bytes(600_000)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store", AT_ONCE, create=True) as store:
        for _ in range(4):  # one fills a file
            store.put("T", BODY)
        wait_for(lambda: store.max_offset("T", 0) == 4)
        store.flush()
        yield store


def log_starts(store, tmp_path):
    """Where the log files start, without the empty one that may be prepared for later."""
    starts = sorted(int(file.name) for file in (tmp_path / "store" / "commitlog").iterdir())
    return [start for start in starts if start < store.max_physical_offset()]


def test_all_but_the_last_file_go_on_demand(store, tmp_path):
    assert log_starts(store, tmp_path) == [0, 1 << 20, 2 << 20, 3 << 20]
    assert store.clean() == (3, 0, 0)
    assert log_starts(store, tmp_path) == [3 << 20]
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (3, 4)
    assert store.min_physical_offset() == 3 << 20
    assert store.get("T", 0, 0).status == "OFFSET_TOO_SMALL"
    assert store.get("T", 0, 3).message_count == 1
    assert store.clean() == (0, 0, 0)
    assert store.runtime()["deletedLogFiles"] == "3"


def test_a_scan_of_the_directory_survives_the_cleaning(store, tmp_path):
    messages = mqstore.open(tmp_path / "store").records()
    first = next(messages)
    store.clean()
    rest = [message.commit_log_offset for message in messages]
    assert (first.commit_log_offset, rest[-1]) == (0, 3 << 20)


def test_it_comes_by_itself_when_asked(store):
    store.clean_soon()
    wait_for(lambda: store.min_offset("T", 0) == 3)


def test_queues_of_unused_topics_are_emptied(store):
    store.put("Kept", b"x")
    wait_for(lambda: store.max_offset("Kept", 0) == 1)
    assert store.clean_unused_topics({"Kept"}) == (0, 0, 0)  # their last files stay
    assert (store.min_offset("T", 0), store.max_offset("T", 0)) == (4, 4)
    assert store.min_offset("Kept", 0) == 0
    assert store.put("T", b"again").queue_offset == 4
    assert store.clean_expired_queues() == (0, 0, 0)


def test_settings_of_cleaning_change_at_once_or_not_at_all(store, tmp_path):
    store.set_cleaning(Settings(reserved_hours=1).as_dict())
    assert store.clean() == (0, 0, 0)
    with pytest.raises(mqstore.SettingError, match="deleteWhen"):
        store.set_cleaning(Settings(delete_when="noon", reserved_hours=0).as_dict())
    assert store.clean() == (0, 0, 0)
    with pytest.raises(mqstore.SettingError, match="hours of the day"):
        Store(tmp_path / "other", dataclasses.replace(SMALL, delete_when=""), create=True)
    assert not (tmp_path / "other").exists()


def test_the_time_range_begins_with_what_is_left(store):
    begin = store.store_time_at("T", 0, 0)
    assert store.store_time_range() == (begin, store.store_time_at("T", 0, 3))
    store.clean()
    last = store.store_time_at("T", 0, 3)
    assert store.store_time_range() == (last, last)
    assert store.runtime()["earliestMessageTimeStamp"] == str(last)


def test_an_empty_store_has_no_time_range(tmp_path):
    with Store(tmp_path / "store", SMALL, create=True) as store:
        assert store.store_time_range() is None
        assert store.runtime()["earliestMessageTimeStamp"] == "-1"
        assert store.clean() == (0, 0, 0)


def test_offsets_of_groups(store):
    for queue_id in range(3):
        store.commit("g", "T", queue_id, 10 + queue_id)
    store.commit("g", "Other", 0, 1)
    assert store.committed_of_group("g") == {"T": {0: 10, 1: 11, 2: 12}, "Other": {0: 1}}
    assert store.clone_offsets("g", "h", "T") == 3
    assert store.committed_of_group("h") == {"T": {0: 10, 1: 11, 2: 12}}
    store.reset_offset("g", "T", 0, 2)
    store.commit("g", "T", 0, 4)
    assert store.committed("g", "T", 0) == 2
    moved = store.take_reset("g", "T", 0)
    assert (moved.status, moved.next_begin_offset, moved.max_offset) == ("OFFSET_RESET", 2, 4)
    assert store.take_reset("g", "T", 0) is None
    store.commit("g", "T", 0, 4)
    assert store.remove_group("g", "T") == 3
    assert store.committed_of_group("g") == {"Other": {0: 1}}


def test_messages_left_are_whole(store):
    store.clean()
    (message,) = decode_messages(store.get("T", 0, 3).body)
    assert message.body == BODY
    assert decode_messages(store.get_at(0))[0].commit_log_offset == 3 << 20


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("store", {}),
        ("store-crashed-recovered", {}),
        ("store-ext", {"queue_ext_enabled": True}),
        ("store-lmq", {"multi_dispatch_enabled": True, "lmq_enabled": True}),
    ],
)
def test_a_java_store_is_sound_after_cleaning(tmp_path, name, settings):
    """Log, queues, extension and index begin at the same place, and everything is counted on."""
    root = extract(name, tmp_path)
    settings = Settings(
        reserved_hours=0,
        delete_log_pause_ms=0,
        delete_queue_pause_ms=0,
        min_free_bytes=0,
        index_slots=100,
        index_entries=400,
        **settings,
    )
    with Store(root, settings) as store:
        ends = {queue: store.max_offset(*queue) for queue in queues_of(root)}
        topic, queue_id = max(ends, key=ends.__getitem__)
        for _ in range(200):  # three files of the log
            store.put(topic, bytes(1_000), queue_id=queue_id, properties=b"TAGS\1A\2KEYS\1k l m")
        wait_for(lambda: store.max_offset(topic, queue_id) == ends[topic, queue_id] + 200)
        store.flush()
        before = files_of(root)
        store.clean()
        # The store's own thread may delete some of the files at the same time.
        in_log = store.max_physical_offset
        wait_for(lambda: in_log() - store.min_physical_offset() <= LOG_FILE)
        assert files_of(root)["index"] < before["index"]
        if name == "store-ext":
            assert files_of(root)["consumequeue_ext"] < before["consumequeue_ext"]
        start = store.min_physical_offset()
        for queue in ends:
            low, high = store.min_offset(*queue), store.max_offset(*queue)
            assert store.store_time_at(*queue, low) > 0 or low == high
        mins = {queue: store.min_offset(*queue) for queue in ends}
    assert mqstore.open(root).verify().findings == ()
    with Store(root, settings) as store:
        assert store.min_physical_offset() == start
        assert {queue: store.min_offset(*queue) for queue in ends} == mins


def queues_of(root):
    return [(queue.topic, queue.queue_id) for queue in mqstore.open(root).queues()]


def files_of(root):
    """Files by folder of the store."""
    return {
        folder.name: sum(path.is_file() for path in folder.rglob("*"))
        for folder in root.iterdir()
        if folder.is_dir()
    }

"""The store engine through its Python door."""

import dataclasses
import os
import threading

import pytest

import mqstore
from mqstore import Settings, Store, decode_messages, encode_properties

SMALL = Settings(
    commit_log_file_bytes=1 << 20,
    index_slots=100,
    index_entries=400,
    allocate_step_bytes=1 << 20,
    min_free_bytes=0,
)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path / "store", SMALL, create=True) as store:
        yield store


def wait_for(condition, seconds=60.0):
    """Dispatch follows the log on a thread of its own."""
    tick = threading.Event()
    for _ in range(int(seconds / 0.005)):
        if condition():
            return
        tick.wait(0.005)
    raise AssertionError("not in time")


def put_ten(store, topic="TopicTest"):
    properties = encode_properties({"TAGS": "TagA", "KEYS": "k"})
    return [
        store.put(topic, b"Hello RocketMQ %d" % i, queue_id=i % 4, properties=properties)
        for i in range(10)
    ]


def test_what_is_put_is_read_back(store):
    puts = put_ten(store)
    assert [p.status for p in puts] == ["PUT_OK"] * 10
    assert [p.queue_offset for p in puts] == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    wait_for(lambda: store.max_offset("TopicTest", 0) == 3)
    found = store.get("TopicTest", 0, 0)
    assert (found.status, found.message_count, found.next_begin_offset) == ("FOUND", 3, 3)
    messages = decode_messages(found.body)
    assert [m.body for m in messages] == [b"Hello RocketMQ %d" % i for i in (0, 4, 8)]
    assert [m.commit_log_offset for m in messages] == [puts[i].physical_offset for i in (0, 4, 8)]


def test_tags_filter_by_hash(store):
    store.put("T", b"a", properties=encode_properties({"TAGS": "TagA"}))
    store.put("T", b"b", properties=encode_properties({"TAGS": "TagB"}))
    wait_for(lambda: store.max_offset("T", 0) == 2)
    found = store.get("T", 0, 0, 32, [2598919])  # Java's hash of TagA
    assert [m.body for m in decode_messages(found.body)] == [b"a"]
    assert store.get("T", 0, 0, 32, [1]).status == "NO_MATCHED_MESSAGE"
    assert store.get("T", 0, 2).status == "OFFSET_OVERFLOW_ONE"
    assert store.get("T", 0, 9).status == "OFFSET_OVERFLOW_BADLY"


def test_a_record_by_offset_and_by_key(store):
    puts = put_ten(store)
    (message,) = decode_messages(store.get_at(puts[3].physical_offset))
    assert message.body == b"Hello RocketMQ 3"
    assert store.get_at(puts[3].physical_offset + 1) is None
    wait_for(lambda: store.query("TopicTest", "k").message_count == 10)
    assert store.query("TopicTest", "other").message_count == 0


def test_numbers_about_queues(store):
    puts = put_ten(store)
    wait_for(lambda: store.max_offset("TopicTest", 1) == 3)
    assert (store.min_offset("TopicTest", 1), store.max_offset("Other", 0)) == (0, 0)
    assert store.store_time_at("TopicTest", 1, 0) == puts[1].store_timestamp_ms
    assert store.store_time_at("TopicTest", 1, 99) == -1
    assert store.offset_by_time("TopicTest", 1, 0) == 0
    assert not store.is_on_disk("TopicTest", 1, 0)
    assert store.min_physical_offset() == 0
    assert store.max_physical_offset() == puts[-1].physical_offset + puts[-1].size_bytes


def test_committed_offsets_and_state_outlive_the_store(tmp_path):
    with Store(tmp_path / "store", SMALL, create=True) as store:
        put_ten(store)
        store.commit("readers", "TopicTest", 2, 1)
        store.save_state("topics.json", b"{}")
    with Store(tmp_path / "store") as store:
        assert store.committed("readers", "TopicTest", 2) == 1
        assert store.committed("readers", "TopicTest", 3) is None
        assert store.committed_all() == {"TopicTest@readers": {2: 1}}
        assert store.remove_group("readers", "Other") == 0
        assert store.remove_group("readers") == 1
        assert store.load_state("topics.json") == b"{}"
        assert store.load_state("none.json") is None
        assert store.put("TopicTest", b"more", queue_id=0).queue_offset == 3


def test_a_batch_is_consecutive_records(store):
    item = (21 + 5 + 2 - 1).to_bytes(4, "big") + bytes(8) + bytes(4) + b"\0\0\0\x05hello" + b"\0\0"
    put = store.put("T", item * 3, batch=True)
    assert (put.status, len(put.record_offsets), put.queue_offset) == ("PUT_OK", 3, 0)
    wait_for(lambda: store.max_offset("T", 0) == 3)


def test_refusals_are_statuses(store):
    assert store.put("T" * 300, b"x").status == "MESSAGE_ILLEGAL"
    assert store.put("T", bytes((4 << 20) + 1)).status == "MESSAGE_ILLEGAL"
    long = encode_properties({"p": "é" * 20_000})  # RocketMQ counts characters, then bytes
    assert store.put("T", b"x", properties=long).status == "PROPERTIES_SIZE_EXCEEDED"
    assert store.put("T", b"x", properties=long * 2).status == "MESSAGE_ILLEGAL"
    assert store.refusal() is None
    assert store.lock_held_ms() == 0
    assert int(store.runtime()["putMessageTimesTotal"]) >= 0


def test_sync_flush_from_many_threads(tmp_path):
    settings = dataclasses.replace(SMALL, sync_flush=True)
    with Store(tmp_path / "store", settings, create=True) as store:
        statuses = []

        def work():
            for _ in range(20):
                statuses.append(store.put("T", b"x" * 100).status)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert statuses == ["PUT_OK"] * 160


def test_errors_of_open(tmp_path):
    with pytest.raises(FileNotFoundError, match="missing"):
        Store(tmp_path / "missing")
    with Store(tmp_path / "store", SMALL, create=True) as store:
        store.put("T", b"x")
        with pytest.raises(mqstore.StoreLocked, match="locked by another"):
            Store(tmp_path / "store", SMALL)
    with pytest.raises(mqstore.UnknownLayout, match="1048576"):
        Store(tmp_path / "store", dataclasses.replace(SMALL, commit_log_file_bytes=2 << 20))
    with pytest.raises(mqstore.SettingError, match="index_slots"):
        Store(tmp_path / "x", dataclasses.replace(SMALL, index_slots=-1), create=True)
    with pytest.raises(ValueError, match="ip:port"), Store(tmp_path / "y", SMALL, True) as store:
        store.put("T", b"x", born_host="localhost")
    with pytest.raises(mqstore.SettingError, match="unknown setting"):
        mqstore.store._core.Store(tmp_path / "z", {"nonsense": 1}, True)


def test_closing_twice_is_fine_and_puts_are_refused_afterwards(tmp_path):
    store = Store(tmp_path / "store", SMALL, create=True)
    store.close()
    store.close()
    assert store.put("T", b"x").status == "SERVICE_NOT_AVAILABLE"


def test_a_forked_child_gets_an_error_not_a_hang(store):
    child = os.fork()
    if child == 0:
        try:
            store.put("T", b"x")
        except RuntimeError as error:
            os._exit(7 if "fork" in str(error) else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


def test_settings_name_rocketmqs_keys():
    keys = {field.name: field.metadata["key"] for field in dataclasses.fields(Settings)}
    assert keys["commit_log_file_bytes"] == "mappedFileSizeCommitLog"
    assert all("unit" in field.metadata for field in dataclasses.fields(Settings))
    with pytest.raises(dataclasses.FrozenInstanceError):
        Settings().sync_flush = True


@pytest.mark.parametrize("path", ["data", "./data", "new/data"])
def test_a_store_is_created_at_a_relative_path(tmp_path, monkeypatch, path):
    monkeypatch.chdir(tmp_path)
    with Store(path, SMALL, create=True) as store:
        put_ten(store)
    assert (tmp_path / path / "commitlog").is_dir()

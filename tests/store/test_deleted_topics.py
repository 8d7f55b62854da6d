"""Messages of a deleted topic stay away: after a stop, a kill, a rebuild, and with the topic."""

import dataclasses
import shutil

import pytest

import mqstore
from mqstore import Settings, Store
from mqstore.offline.repairing import rebuild
from tests.store.test_engine import wait_for

KEPT = {"Kept"}
SMALL = Settings(
    commit_log_file_bytes=1 << 16,
    consume_queue_file_bytes=400,
    index_slots=100,
    index_entries=200,
    min_free_bytes=0,
)


def put(store, topic, count, queue_id=0):
    first = store.max_offset(topic, queue_id)
    for at in range(first, first + count):
        store.put(topic, b"x" * 300, queue_id=queue_id, properties=f"KEYS\x01k{at}".encode())
    wait_for(lambda: store.max_offset(topic, queue_id) == first + count)


def bounds(store, topic, queue_id=0):
    return store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)


@pytest.fixture
def deleted(tmp_path):
    """A store whose topic T had 50 messages in two queues."""
    root = tmp_path / "store"
    with Store(root, SMALL, create=True) as store:
        put(store, "Kept", 30)
        put(store, "T", 30)
        put(store, "T", 20, 3)
        store.clean_unused_topics(KEPT)
        assert bounds(store, "T") == (30, 30)
        shutil.copytree(root, tmp_path / "killed")
    return tmp_path


@pytest.fixture(params=["stopped", "killed", "rebuilt", "copied", "without queues"])
def root(request, deleted):
    root = deleted / ("killed" if request.param == "killed" else "store")
    if request.param == "rebuilt":
        rebuild(root, in_place=True)
    if request.param == "copied":
        rebuild(root, to=deleted / "copy")
        root = deleted / "copy"
    if request.param == "without queues":
        shutil.rmtree(root / "consumequeue" / "T")
    return root


def test_deleted_messages_stay_away_and_numbers_go_on(root):
    with Store(root, SMALL) as store:
        assert bounds(store, "T") == (30, 30)
        assert bounds(store, "T", 3) == (20, 20)
        assert bounds(store, "Kept") == (0, 30)
        assert "T" not in store.queues()
        put(store, "T", 2)
        assert store.get("T", 0, 0).status == "OFFSET_TOO_SMALL"
        assert store.get("T", 0, 30).message_count == 2


def test_a_topic_made_anew_shows_its_new_messages_only(root, tmp_path):
    with Store(root, SMALL) as store:
        put(store, "T", 5)
        store.flush()
        shutil.copytree(root, tmp_path / "again")
    for place in (root, tmp_path / "again"):
        with Store(place, SMALL) as store:
            assert bounds(store, "T") == (30, 35)
            assert bounds(store, "T", 3) == (20, 20)
            assert store.clean_expired_queues() == (0, 0, 0) or bounds(store, "T") == (30, 35)


def test_keys_find_no_deleted_message(root):
    with Store(root, SMALL) as store:
        assert store.query("T", "k7").message_count == 0
        assert store.query("Kept", "k7").message_count == 1
        put(store, "T", 1)
        wait_for(lambda: store.query("T", "k30").message_count == 1)


def test_verify_counts_deleted_messages_and_finds_nothing_wrong(root):
    with Store(root, SMALL) as store:
        put(store, "T", 1)
    report = mqstore.open(root).verify()
    assert not report.findings
    notices = [(found.kind, found.place, found.what) for found in report.notices]
    assert ("deleted_topic", "T", "50 messages were deleted with this topic") in notices
    read = mqstore.open(root)
    assert [(q.min_offset, q.max_offset) for q in read.queues() if q.topic == "T"] == [
        (30, 31),
        (20, 20),
    ]


def test_one_topic_goes_and_all_others_stay(tmp_path):
    with Store(tmp_path / "store", SMALL, create=True) as store:
        topics = ("T", "Other", "RMQ_SYS_TRANS_HALF_TOPIC", "SCHEDULE_TOPIC_XXXX", "%RETRY%g")
        for topic in topics:
            put(store, topic, 3)
        store.delete_topic("%RETRY%g")
        store.delete_topic("RMQ_SYS_TRANS_HALF_TOPIC")
        store.delete_topic("Unknown")
        store.delete_topic("T")
        store.delete_topic("T")
    with Store(tmp_path / "store", SMALL) as store:
        starts = [store.min_offset(topic, 0) for topic in topics]
        assert starts == [3, 0, 0, 0, 3]


def test_a_damaged_list_of_deletions_is_told(deleted):
    path = deleted / "store" / "mqstack" / "deleted.json"
    path.write_bytes(path.read_bytes().replace(b"30", b"31"))
    found = mqstore.open(deleted / "store").verify().findings
    assert [(finding.kind, finding.place) for finding in found] == [
        ("state", "mqstack/deleted.json")
    ]


def test_deletions_are_forgotten_once_the_log_expired(tmp_path):
    settings = dataclasses.replace(SMALL, reserved_hours=0, delete_log_pause_ms=0)
    with Store(tmp_path / "store", settings, create=True) as store:
        put(store, "T", 30)
        store.delete_topic("T")
        put(store, "Other", 600)
        store.flush()
        assert store.clean()[0] > 0
        store.delete_topic("Other")
        deletions = (tmp_path / "store" / "mqstack" / "deleted.json").read_text()
        assert "Other" in deletions and '"T"' not in deletions
    with Store(tmp_path / "store", settings) as store:
        assert bounds(store, "T") == (30, 30)
        assert bounds(store, "Other") == (600, 600)

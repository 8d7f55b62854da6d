"""mqstore.open over stores of a Java broker, and over a store that is in use."""

import contextlib
import os
import shutil
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mqstore
from tests.common.golden import expected
from tests.examples import examples

TEN = [f"Hello RocketMQ {i}".encode() for i in range(10)]


@pytest.fixture
def reader(golden_store):
    return mqstore.open(golden_store("store"))


def test_every_record_in_log_order(reader):
    lines = [line for line in expected("store") if "topic" in line]
    messages = list(reader.records(check_crc=True))
    assert [m.commit_log_offset for m in messages] == [line["physicalOffset"] for line in lines]
    assert [m.body.hex() for m in messages] == [line["bodyHex"] for line in lines]
    end = next(line["physicalOffset"] for line in expected("store") if "end" in line)
    assert reader.end_physical_offset() == end
    assert (reader.min_physical_offset, reader.max_physical_offset) == (0, 4 * 65536)


def test_ranges_and_filters(reader):
    assert [m.body for m in reader.records(topic="TopicTest")][:10] == TEN
    assert [m.body for m in reader.records(190, 570)] == TEN[1:3]
    second = reader.records(topic="TopicTest", queue_id=2, stop=1900)
    assert [m.body for m in second] == [TEN[0], TEN[4], TEN[8]]
    assert next(reader.records(5)).body == TEN[1]  # continues at the next record's start
    assert reader.message_at(190).body == TEN[1]
    assert reader.message_at(191) is None
    assert reader.message_at(-1) is None
    assert reader.message_at(1 << 40) is None


def test_queues_and_their_units(reader):
    queues = {(q.topic, q.queue_id): q for q in reader.queues()}
    assert len(queues) == 37
    two = queues["TopicTest", 2]
    assert (two.min_offset, two.message_count) == (0, two.max_offset)
    units = reader.queue_units("TopicTest", 2)
    assert len(units) == two.max_offset
    assert units["physical_offset"][:3].tolist() == [0, 760, 1520]
    assert units["size"][0] == 190
    assert units["tags_code"][0] == 2598919
    assert not units.flags.writeable
    assert len(reader.queue_units("TopicTest", 2, 1, 1)) == 1
    assert len(reader.queue_units("None", 0)) == 0
    assert [m.body for m in reader.queue("TopicTest", 2)][:3] == [TEN[0], TEN[4], TEN[8]]
    assert [m.queue_offset for m in reader.queue("TopicTest", 2, 1)][:2] == [1, 2]


def test_a_long_queue_spans_files(reader):
    long = max(reader.queues(), key=lambda q: q.message_count)
    assert long.message_count > 300  # a file of this store holds 300 units
    offsets = [m.queue_offset for m in reader.queue(long.topic, long.queue_id)]
    assert offsets == list(range(long.min_offset, long.max_offset))


def test_finding_by_key_and_unique_id(reader):
    keyed = next(m for m in reader.records() if len(m.keys) > 1)
    for key in keyed.keys:
        assert keyed.msg_id in [m.msg_id for m in reader.find(keyed.topic, key)]
    (found,) = reader.find("TopicTest", next(reader.records()).msg_id)
    assert found.body == TEN[0]
    assert reader.find("TopicTest", "no such key") == []


def test_committed_offsets(reader):
    committed = reader.committed()
    assert committed
    assert all("@" in name and all(isinstance(q, int) for q in row) for name, row in
               committed.items())  # fmt: skip


def test_layout_is_found_on_disk(reader):
    assert reader.layout == mqstore.Layout(65536, 6000, 100, 400)


@pytest.mark.parametrize(
    ("name", "kinds", "notices"),
    [
        ("store", set(), set()),
        ("store-crashed-recovered", set(), {"not_closed"}),
        ("store-ext", set(), set()),
        ("store-lmq", set(), set()),
        ("store-damaged", {"crc"}, {"not_closed"}),
        ("store-crashed", set(), {"not_closed", "queue_behind", "index_behind"}),
    ],
)
def test_verify_says_what_is_wrong(golden_store, name, kinds, notices):
    seen = []
    reader = mqstore.open(golden_store(name))
    report = reader.verify(seen.append)
    assert {finding.kind for finding in report.findings} == kinds
    assert {notice.kind for notice in report.notices} == notices
    assert report.damaged == bool(kinds)
    assert report.records == len(list(reader.records(check_crc=True)))
    last = reader.last_message()
    assert report.log_end == last.commit_log_offset + last.store_size


def test_nothing_is_created_or_changed(golden_store):
    root = golden_store("store")

    def state():
        return sorted(
            (path, os.path.getmtime(os.path.join(path, name)))
            for path, _, names in os.walk(root)
            for name in names
        )

    before = state()
    reader = mqstore.open(root)
    list(reader.records())
    reader.verify()
    reader.queues()
    assert state() == before


def test_errors_of_open(tmp_path):
    with pytest.raises(FileNotFoundError):
        mqstore.open(tmp_path / "missing")
    with pytest.raises(mqstore.UnknownLayout, match="no commitlog directory"):
        mqstore.open(tmp_path)
    (tmp_path / "commitlog").mkdir()
    assert list(mqstore.open(tmp_path).records()) == []
    assert mqstore.open(tmp_path).end_physical_offset() == 0


def test_a_store_in_use_is_read_beside_its_writer(tmp_path):
    settings = mqstore.Settings(commit_log_file_bytes=1 << 16, min_free_bytes=0)
    bodies = [b"live %d" % i for i in range(2000)]
    with mqstore.Store(tmp_path / "store", settings, create=True) as store:
        written = threading.Event()

        def write():
            for body in bodies:
                store.put("Live", body)
                if body == bodies[500]:
                    written.set()

        thread = threading.Thread(target=write)
        thread.start()
        assert written.wait(60)
        seen = [m.body for m in mqstore.open(tmp_path / "store").records()]
        assert seen == bodies[: len(seen)]
        assert len(seen) >= 500
        thread.join(60)
        reader = mqstore.open(tmp_path / "store")
        assert [m.body for m in reader.records(topic="Live")] == bodies
        assert reader.end_physical_offset() == store.max_physical_offset()
    assert not mqstore.open(tmp_path / "store").verify().damaged


def test_ctrl_c_or_an_error_stops_a_long_check(golden_store):
    reader = mqstore.open(golden_store("store"))

    def stop(offset):
        raise KeyboardInterrupt

    with contextlib.suppress(KeyboardInterrupt):
        reader.verify(stop)  # a short check may end before it reports for the first time


def test_a_log_cut_short_in_the_middle_is_said(golden_store, tmp_path, caplog):
    """Eight bytes of a record's head are lost: the scan continues after it and logs the damage."""
    root = shutil.copytree(golden_store("store-crashed-recovered"), tmp_path / "store")
    whole = [m.commit_log_offset for m in mqstore.open(root).records()]
    victim = whole[500]
    file = root / "commitlog" / f"{victim - victim % 65536:020}"
    with file.open("r+b") as log:
        log.seek(victim % 65536)
        log.write(bytes(8))
    reader = mqstore.open(root)
    seen = [m.commit_log_offset for m in reader.records()]
    assert seen == [offset for offset in whole if offset != victim]
    size = whole[501] - victim
    assert f"{size} bytes of the log from offset {victim} are unreadable" in caplog.text
    assert reader.queued_end() > victim
    assert reader.verify().damaged
    caplog.clear()
    assert len(list(reader.records(stop=victim))) == 500
    assert not caplog.text


@examples(60)
@given(data=st.data(), name=st.sampled_from(["store", "store-lmq", "store-crashed"]))
def test_the_native_filter_chooses_what_the_python_one_does(golden_store, data, name):
    reader = mqstore.open(golden_store(name))
    messages = list(reader.records())
    one, other = (data.draw(st.sampled_from(messages)) for _ in range(2))
    early, late = sorted([one.store_timestamp_ms, other.store_timestamp_ms])
    wanted = mqstore.Wanted(
        stop=data.draw(st.sampled_from([None, other.commit_log_offset, 1 << 40])),
        topic=data.draw(st.sampled_from([None, one.topic, "None"])),
        queue_id=data.draw(st.sampled_from([None, one.queue_id, 99])),
        tag=data.draw(st.sampled_from([None, one.tags, "None"])),
        begin_ms=data.draw(st.sampled_from([None, early, late, 0, 2**62])),
        end_ms=data.draw(st.sampled_from([None, early, late, 0, 2**62])),
    )
    start = data.draw(st.sampled_from([None, one.commit_log_offset]))
    first = start or 0
    chosen = [
        m.commit_log_offset for m in messages if m.commit_log_offset >= first and wanted.passes(m)
    ]
    walked = [
        m.commit_log_offset
        for stretch in reader.walk(start, wanted)
        for m in mqstore.decode_messages(stretch)
    ]
    assert walked == chosen

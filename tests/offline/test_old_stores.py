"""Stores as RocketMQ 3.2 left them are sound, although a newer one writes other numbers."""

import shutil
import struct

import mqstore
from mqstore import Settings, Store
from tests.store.test_engine import wait_for

SMALL = Settings(
    commit_log_file_bytes=1 << 20,
    consume_queue_file_bytes=2_000,
    index_slots=100,
    index_entries=400,
    min_free_bytes=0,
)
PREPARED, COMMITTED = 4, 8


def as_rocketmq_leaves(root):
    shutil.rmtree(root / "mqstack")
    (root / "config").mkdir(exist_ok=True)
    (root / "config" / "topics.json").write_text('{"topicConfigTable":{"T":{}}}')
    return mqstore.open(root).verify()


def test_due_times_by_another_clock_are_no_damage(tmp_path):
    root = tmp_path / "store"
    with Store(root, SMALL, create=True) as store:
        for _ in range(5):
            assert store.put("T", b"later", delay_level=18).status == "PUT_OK"
        wait_for(lambda: store.max_offset("SCHEDULE_TOPIC_XXXX", 17) == 5)
    queue = root / "consumequeue" / "SCHEDULE_TOPIC_XXXX" / "17" / f"{0:020}"
    units = bytearray(queue.read_bytes())
    for at, early_ms in ((1, 1), (3, 12)):
        place = at * 20 + 12
        (due_ms,) = struct.unpack_from(">q", units, place)
        struct.pack_into(">q", units, place, due_ms - early_ms)
    queue.write_bytes(units)
    assert not as_rocketmq_leaves(root).findings
    (due_ms,) = struct.unpack_from(">q", units, 32)
    struct.pack_into(">q", units, 32, due_ms ^ 1 << 20)
    queue.write_bytes(units)
    assert [found.kind for found in mqstore.open(root).verify().findings] == ["delay_time"]


def test_keys_on_the_prepared_message_only_are_no_damage(tmp_path):
    root, index = tmp_path / "store", tmp_path / "index"
    keys = b"KEYS\x01order-7"
    with Store(root, SMALL, create=True) as store:
        prepared = store.put("T", b"x", sys_flag=PREPARED, properties=keys)
        wait_for(lambda: store.query("T", "order-7").message_count == 1)
    shutil.copytree(root / "index", index)
    with Store(root, SMALL) as store:
        place = prepared.physical_offset
        store.put("T", b"x", sys_flag=COMMITTED, properties=keys, prepared_transaction_offset=place)
        wait_for(lambda: store.max_offset("T", 0) == 1)
    shutil.rmtree(root / "index")
    shutil.copytree(index, root / "index")
    assert not as_rocketmq_leaves(root).findings

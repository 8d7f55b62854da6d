"""Fills a store through the engine, without a broker, and ends by closing it or by SIGKILL.

python -m tests.interop.engine_writer ROOT close|kill
"""

from __future__ import annotations

import os
import signal
import struct
import sys
import zlib

from mqcommon import fastjson
from mqcommon.wire.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from mqstore import Settings, Store, encode_properties

TOPICS = ("TopicEngine", "TopicRoll")
GROUP = "engine_readers"
QUEUES = 4
ROLLED = 330
"""Messages of one queue: more than one of its files holds."""
COMPRESSED, PREPARED, COMMIT, ROLLBACK = 0x1, 0x4, 0x8, 0xC
IPV4, IPV6 = "192.0.2.10:50000", "[2001:db8::7]:50001"
SETTINGS = Settings(
    commit_log_file_bytes=65536,
    consume_queue_file_bytes=6000,
    index_slots=100,
    index_entries=400,
    min_free_bytes=0,
)


def put(store: Store, topic: str, body: bytes, **options: object) -> int:
    """Store one message; its place in the log."""
    result = store.put(topic, body, **options)  # type: ignore[arg-type]
    assert result.status == "PUT_OK", result.status
    return result.physical_offset


def singles(store: Store) -> None:
    """Messages of every shape a record has."""
    for number in range(60):
        properties = {"KEYS": f"key-{number} shared", "TAGS": "TagA" if number % 2 else "TagB"}
        properties["UNIQ_KEY"] = f"C0A80001{number:024X}"
        if number % 5 == 0:
            properties["größe"] = "日本-€"
        put(
            store,
            "TopicEngine",
            f"Hello {number} ".encode() * (1 + number * 3),
            queue_id=number % QUEUES,
            flag=number,
            born_timestamp_ms=1_700_000_000_000 + number,
            born_host=IPV6 if number % 3 == 0 else IPV4,
            store_host="[::1]:10911" if number % 7 == 0 else "127.0.0.1:10911",
            reconsume_times=number % 4,
            properties=encode_properties(properties),
        )
    put(store, "TopicEngine", b"\0", queue_id=1)
    put(store, "TopicEngine", bytes(range(256)) * 200, queue_id=2)
    put(store, "TopicEngine", zlib.compress(b"much the same " * 900), sys_flag=COMPRESSED)


def transactions(store: Store) -> None:
    """Each kind: only the committed one is in a queue."""
    keyed = encode_properties({"KEYS": "tx"})
    half = put(store, "TopicEngine", b"half", sys_flag=PREPARED, properties=keyed)
    for kind, body in ((COMMIT, b"committed"), (ROLLBACK, b"rolled back")):
        put(
            store,
            "TopicEngine",
            body,
            sys_flag=kind,
            prepared_transaction_offset=half,
            properties=keyed,
        )


def rolled(store: Store) -> None:
    """A queue of several files."""
    for start in range(0, ROLLED, 30):
        items = b"".join(item(f"rolled {number}") for number in range(start, start + 30))
        result = store.put("TopicRoll", items, queue_id=3, batch=True)
        assert (result.status, len(result.record_offsets)) == ("PUT_OK", 30)


def item(text: str) -> bytes:
    """A message of a batch body."""
    body = text.encode()
    properties = encode_properties({"KEYS": text.replace(" ", "-")})
    tail = struct.pack(">h", len(properties)) + properties
    head = struct.pack(">iiii", 0, 0, 7, len(body))
    return struct.pack(">i", 4 + len(head) + len(body) + len(tail)) + head + body + tail


def fill(store: Store) -> None:
    """Everything, and the topics file a broker needs to serve it."""
    table = {
        name: TopicConfig(name, read_queue_nums=QUEUES, write_queue_nums=QUEUES) for name in TOPICS
    }
    text = fastjson.dumps(TopicConfigSerializeWrapper(table).to_plain(), pretty=True)
    store.save_state("topics.json", text.encode())
    singles(store)
    rolled(store)
    transactions(store)
    put(store, "TopicEngine", b"later", queue_id=2, delay_level=18)
    for queue_id in range(QUEUES):
        store.commit(GROUP, "TopicEngine", queue_id, 3 + queue_id)


if __name__ == "__main__":
    store = Store(sys.argv[1], SETTINGS, create=True)
    fill(store)
    if sys.argv[2] == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    store.close()

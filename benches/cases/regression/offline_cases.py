"""Reads the messages of a store's files as Python objects, as Arrow and as text.

pytest-benchmark cases; `python -m benches store` runs them. MQSTACK_BENCH_MESSAGES: number of
messages in the store.
"""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mqstore import Settings, Store, StoreReader, decode_messages, encode_properties
from mqstore import open as open_store
from mqstore.arrow import BatchBuilder, arrow_schema

BODY = bytes(128)
PROPERTIES = encode_properties(
    {"UNIQ_KEY": "C000020A48944E0E2F2A689C3F880000", "CLUSTER": "DefaultCluster", "TAGS": "TagA"}
)
"""With these, a record has 297 bytes, like a producer's plain send."""
MESSAGES = int(os.environ.get("MQSTACK_BENCH_MESSAGES", "5000"))
BATCH = 500
PULL_COUNT = 32
COLUMNS = (
    "topic", "queue_id", "queue_offset", "body", "keys", "tags", "store_timestamp", "properties",
)  # fmt: skip
SETTINGS = Settings(commit_log_file_bytes=64 << 20, min_free_bytes=0)

Work = Callable[[], int]
Measure = Callable[[Work], None]


@pytest.fixture(scope="session")
def reader(tmp_path_factory: pytest.TempPathFactory) -> StoreReader:
    """A closed store of equal messages in four queues."""
    root = tmp_path_factory.mktemp("bench") / "store"
    head = struct.pack(">iiii", 0, 0, 0, len(BODY))
    tail = struct.pack(">h", len(PROPERTIES)) + PROPERTIES
    item = struct.pack(">i", 4 + len(head) + len(BODY) + len(tail)) + head + BODY + tail
    with Store(root, SETTINGS, create=True) as store:
        for number in range(MESSAGES // BATCH):
            store.put("BenchmarkTest", item * BATCH, queue_id=number % 4, batch=True)
    return open_store(root)


@pytest.fixture
def measure(benchmark: Any) -> Measure:
    """Times a function that returns the number of messages it processed."""

    def run(work: Work) -> None:
        benchmark.extra_info["messages"] = benchmark(work)

    return run


@pytest.fixture
def pulled(reader: StoreReader) -> bytes:
    """The bytes of a pull of 32 messages."""
    size = next(reader.records()).store_size
    return bytes(next(reader.chunks()).body[: size * PULL_COUNT])


def test_decode_a_pull_of_32(measure: Measure, pulled: bytes) -> None:
    measure(lambda: len(decode_messages(pulled, "broker-a")))


def test_decode_and_read_four_fields(measure: Measure, pulled: bytes) -> None:
    def work() -> int:
        messages = decode_messages(pulled, "broker-a")
        for message in messages:
            _ = (message.topic, message.body, message.queue_offset, message.properties)
        return len(messages)

    measure(work)


def test_eight_arrow_columns(measure: Measure, reader: StoreReader) -> None:
    body = next(reader.chunks()).body
    builder = BatchBuilder(arrow_schema(COLUMNS))

    def work() -> int:
        rows = builder.add(body)
        builder.take()
        return rows

    measure(work)


def test_iterate_a_store(measure: Measure, reader: StoreReader) -> None:
    measure(lambda: sum(1 for _ in reader.records()))


def test_a_store_as_arrow(measure: Measure, reader: StoreReader) -> None:
    measure(lambda: sum(batch.num_rows for batch in reader.batches(COLUMNS)))


def test_a_store_as_arrow_places_only(measure: Measure, reader: StoreReader) -> None:
    columns = ("topic", "queue_id", "queue_offset", "store_timestamp")
    measure(lambda: sum(batch.num_rows for batch in reader.batches(columns)))


def test_dump_without_bodies(measure: Measure, reader: StoreReader, tmp_path: Path) -> None:
    """Dumps to a file: with a pipe, its reader would be measured too."""
    words = [sys.executable, "-c", "import sys; from mqstore.cli import main; sys.exit(main())"]
    words += ["dump", str(reader.path), "--body", "none", "--output", "jsonl"]
    written = tmp_path / "dump.jsonl"

    def work() -> int:
        with written.open("wb") as out:
            subprocess.run(words, stdout=out, check=True)
        return MESSAGES

    measure(work)
    with written.open("rb") as lines:
        assert sum(1 for _ in lines) == MESSAGES


def test_verify(measure: Measure, reader: StoreReader) -> None:
    measure(lambda: reader.verify().records)


def test_put_from_python(measure: Measure, tmp_path: Path) -> None:
    with Store(tmp_path / "store", SETTINGS, create=True) as store:

        def work() -> int:
            for _ in range(100):
                store.put("BenchmarkTest", BODY, properties=PROPERTIES)
            return 100

        measure(work)

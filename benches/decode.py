"""Stored messages to Python objects and to Arrow: from a pull body, and from a store's files."""

import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benches.harness import Mode, Report, command_line, mode_of
from mqstore import Settings, Store, StoreReader, decode_messages, encode_properties
from mqstore import open as open_store
from mqstore.arrow import BatchBuilder, arrow_schema, store_batches

BODY = bytes(128)
PROPERTIES = encode_properties(
    {"UNIQ_KEY": "C000020A48944E0E2F2A689C3F880000", "CLUSTER": "DefaultCluster", "TAGS": "TagA"}
)
"""Records of 297 bytes, such as a producer's plain send makes."""
PULL_COUNT = 32
DECODED_PER_S_MIN = 2_000_000
"""What the codec must reach on an idle machine; checked in large runs."""
COLUMNS = (
    "topic", "queue_id", "queue_offset", "body", "keys", "tags", "store_timestamp", "properties",
)  # fmt: skip


def main(smoke: bool = False) -> None:
    """Run every case and print the table."""
    mode = mode_of(smoke)
    report = Report("decode", mode)
    folder = Path(tempfile.mkdtemp(prefix="mqbench-"))
    try:
        reader = filled_store(folder / "store", 20_000 if smoke else 200_000)
        for case, work in cases(reader).items():
            report.add(case, [measure(work, mode) for _ in range(mode.rounds)])
    finally:
        shutil.rmtree(folder)
    report.finish()
    decoded = report.rows[0]["messages_per_s"]
    assert smoke or decoded >= DECODED_PER_S_MIN, f"{decoded:,.0f} messages/s decoded"


def filled_store(root: Path, messages: int) -> StoreReader:
    """A closed store of equal messages."""
    with Store(root, Settings(commit_log_file_bytes=64 << 20), create=True) as store:
        for _ in range(messages):
            store.put("BenchmarkTest", BODY, properties=PROPERTIES)
    return open_store(root)


def cases(reader: StoreReader) -> dict[str, Callable[[], int]]:
    """Name to work; the work returns how many messages it went through."""
    record = next(reader.chunks()).body
    size = next(reader.records()).store_size
    body = record[: size * PULL_COUNT]
    schema = arrow_schema(COLUMNS)
    builder = BatchBuilder(schema)
    end = reader.end_physical_offset()

    def decode() -> int:
        return len(decode_messages(body, "broker-a"))

    def decode_and_read() -> int:
        messages = decode_messages(body, "broker-a")
        for message in messages:
            _ = (message.topic, message.body, message.queue_offset, message.properties)
        return len(messages)

    def columns() -> int:
        rows = builder.add(record)
        builder.take()
        return rows

    def iterate() -> int:
        return sum(1 for _ in reader.records())

    def arrow() -> int:
        return sum(batch.num_rows for batch in store_batches(reader, schema, 0, end))

    return {
        "decode a pull of 32": decode,
        "decode and read four fields": decode_and_read,
        "eight Arrow columns": columns,
        "iterate a store": iterate,
        "a store as Arrow": arrow,
    }


def measure(work: Callable[[], int], mode: Mode) -> dict[str, float]:
    """Messages per second of one thread."""
    work()
    count, started = 0, time.perf_counter()
    while time.perf_counter() < started + mode.seconds:
        count += work()
    return {"messages_per_s": count / (time.perf_counter() - started)}


if __name__ == "__main__":
    command_line(main)

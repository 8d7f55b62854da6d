"""Arrow batches become files: which rows lie in which file, and how much is kept in memory."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mqpipeline.lake import lake_writer
from mqpipeline.lake.lake_writer import LakeWriter
from mqpipeline.lake.storage import Lake

START = datetime(2026, 11, 25, 7, 59, tzinfo=UTC)


def batch(topics, first=0, body=b"x"):
    """Row i is stored i minutes after START."""
    rows = range(len(topics))
    at = [START + timedelta(minutes=i) for i in rows]
    return pa.RecordBatch.from_pydict({
        "topic": topics,
        "commit_log_offset": pa.array([(first + i) * 100 for i in rows], pa.int64()),
        "queue_offset": pa.array([first + i for i in rows], pa.int64()),
        "broker_name": ["a"] * len(topics),
        "queue_id": pa.array([0] * len(topics), pa.int32()),
        "body": [body] * len(topics),
        "store_timestamp": pa.array(at, pa.timestamp("us", "UTC")),
    })  # fmt: skip


def write(path, *batches, store="/data/store"):
    writer = LakeWriter(Lake(str(path)), "s", "hour", store)
    for one in batches:
        writer.add(one)
    return {file.path.rpartition("/")[0]: file for file in writer.close()}


def test_alternating_rows_go_to_one_file_per_topic_and_hour(tmp_path):
    files = write(tmp_path, batch(["A", "B"] * 3), batch(["%R", "A"], 6))
    day = "day=2026-11-25"
    assert {folder: (file.first, file.last, file.rows) for folder, file in files.items()} == {
        f"topic=A/{day}/hour=07": (0, 0, 1),
        f"topic=B/{day}/hour=08": (100, 500, 3),
        f"topic=A/{day}/hour=08": (200, 700, 3),
        f"topic=%25R/{day}/hour=07": (600, 600, 1),
    }
    kept = pq.ParquetFile(tmp_path / "s" / files[f"topic=A/{day}/hour=08"].path).read()
    assert kept["queue_offset"].to_pylist() == [2, 4, 7]
    assert "topic" not in kept.column_names


def test_times_are_in_utc_whatever_the_time_zone_of_the_session(tmp_path):
    local = pa.timestamp("us", "Asia/Shanghai")
    rows = batch(["A"])
    at = rows.column("store_timestamp")
    rows = rows.set_column(6, "store_timestamp", at.cast(local))
    nested = pa.StructArray.from_arrays([at.cast(local)], ["at"])
    (file,) = write(tmp_path, rows.append_column("value", nested)).values()
    assert "hour=07" in file.path
    kept = pq.read_schema(tmp_path / "s" / file.path)
    assert kept.field("store_timestamp").type == pa.timestamp("us", "UTC")
    assert kept.field("value").type == pa.struct([("at", pa.timestamp("us", "UTC"))])


def test_messages_outside_the_plan_are_dropped(tmp_path):
    ranges = {"a|A|0": [1, 4], "a|B|0": [0, 0]}
    writer = LakeWriter(Lake(str(tmp_path)), "s", "day", ranges=ranges)
    writer.add(batch(["A", "B", "C", "A", "A"]))
    assert [(file.topic, file.first, file.last, file.rows) for file in writer.close()] == [
        ("A", 3, 3, 1)
    ]  # fmt: skip


def test_a_task_keeps_few_files_open_and_few_bytes_in_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(lake_writer, "BUFFERED_MAX", 2_000)
    monkeypatch.setattr(lake_writer, "OPEN_FILES_MAX", 2)
    ranges = {f"a|{topic}|0": [0, 100] for topic in "ABC"}
    writer = LakeWriter(Lake(str(tmp_path)), "s", "day", ranges=ranges)
    for first in range(0, 40, 4):
        writer.add(batch(["A", "A", "B", "B"], first, b"x" * 100))
        assert sum(file.buffered for file in writer._files.values()) <= 2_000
    writer.add(batch(["C"], 40))
    assert len(writer._files) == 2
    files = writer.close()
    assert sorted((file.topic, file.rows) for file in files) == [("A", 20), ("B", 20), ("C", 1)]
    assert not list(tmp_path.rglob("*.part"))


@pytest.mark.parametrize("rows", [0, 1])
def test_a_batch_may_be_empty(tmp_path, rows):
    assert len(write(tmp_path, batch(["A"] * rows))) == rows

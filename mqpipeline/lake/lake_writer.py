"""Writes Arrow batches of messages to Parquet files: one per topic, source and hour or day."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from mqpipeline.lake import layout
from mqpipeline.lake.storage import Lake

__all__ = ["VALUE", "LakeWriter", "WrittenFile"]

VALUE = "value"
"""The column with the decoded body; null if the body does not match the schema."""
OPEN_FILES_MAX = 256
"""Most open files per task; above this, the least recently used file is closed."""
BUFFERED_MAX = 256 << 20
"""Most bytes buffered per task; above this, the largest buffers are written."""
BUFFER_BYTES = 16 << 20
"""Bytes buffered per file before they are written as one row group."""
HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A file that a task wrote. path: in the staging folder, and later the same in the lake."""

    path: str
    topic: str
    source: str
    first: int
    last: int
    rows: int
    bytes: int
    unparsed: int
    """Rows whose column `value` is null."""

    def to_json(self) -> dict[str, Any]:
        """The fields as a dictionary."""
        return asdict(self)


class _OpenFile:
    """An unfinished file; it has a temporary name until its last offset is known."""

    def __init__(self, writer: LakeWriter, folder: str, topic: str, source: str) -> None:
        self._writer = writer
        self._folder, self._topic, self._source = folder, topic, source
        self._buffer: list[pa.Table] = []
        self.buffered = 0
        """Bytes in the buffer."""
        self._rows = self._unparsed = 0
        self._first = self._last = -1
        self._parquet: Any = None
        self._part = f"{writer.staging}/{folder}/.{source}.{writer.next_number()}.part"

    def add(self, rows: pa.Table, offsets: Any) -> None:
        """Add rows of this file, in order."""
        if self._first < 0:
            self._first = offsets[0].as_py()
        self._last = offsets[-1].as_py()
        self._rows += rows.num_rows
        if VALUE in rows.column_names:
            self._unparsed += rows[VALUE].null_count
        self._buffer.append(rows)
        self.buffered += rows.nbytes
        if self.buffered >= BUFFER_BYTES:
            self.flush()

    def flush(self) -> None:
        """Write the buffered rows as one row group."""
        table = pa.concat_tables(self._buffer)
        if self._parquet is None:
            self._parquet = self._writer.open(self._part, table.schema)
        self._parquet.write_table(table, row_group_size=table.num_rows)
        self._buffer, self.buffered = [], 0

    def close(self) -> WrittenFile:
        """Write the remaining rows, flush the file to the disk and give it its final name."""
        if self._buffer:
            self.flush()
        self._parquet.close()
        name = layout.file_name(self._source, self._first, self._last)
        path = f"{self._folder}/{name}"
        size = self._writer.finish(self._part, f"{self._writer.staging}/{path}")
        return WrittenFile(
            path, self._topic, self._source, self._first, self._last,
            self._rows, size, self._unparsed,
        )  # fmt: skip


class LakeWriter:
    """Writes the messages of one task below a staging folder of a lake.

    by: `hour` or `day`. store: path of the store that the messages come from; None for queues.
    ranges: for queues, the offsets [first, end) to write, by "broker|topic|queue". Other messages
    are dropped: a queue that was created after the plan is left to the next run.
    """

    def __init__(
        self,
        lake: Lake,
        staging: str,
        by: layout.Interval,
        store: str | None = None,
        ranges: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.staging = staging
        self._lake = lake
        self._by, self._step = by, DAY_US if by == "day" else HOUR_US
        self._store = store
        self._ranges = ranges or {}
        self._files: dict[tuple[Any, ...], _OpenFile] = {}
        self._written: list[WrittenFile] = []
        self._count = 0

    def next_number(self) -> int:
        """A number for the next file of this task."""
        self._count += 1
        return self._count

    def open(self, path: str, schema: pa.Schema) -> Any:
        """A Parquet writer for a new file."""
        return self._lake.new_parquet(path, schema)

    def finish(self, part: str, path: str) -> int:
        """Flush a file to the disk, give it its final name, and return its size."""
        return self._lake.finish(part, path)

    def add(self, batch: pa.RecordBatch) -> None:
        """Write the rows of a batch."""
        offset = "commit_log_offset" if self._store else "queue_offset"
        left_out = {"topic", layout.STORE_COLUMN} if self._store else {"topic"}
        names = [name for name in batch.schema.names if name not in left_out]
        for found, key in self._groups(batch):
            rows = found if self._store else self._planned(found, key)
            if not rows.num_rows:
                continue
            kept = pa.Table.from_batches([rows.select(names)])
            self._file(key).add(kept.cast(_in_utc(kept.schema)), rows.column(offset))
        while sum(file.buffered for file in self._files.values()) > BUFFERED_MAX:
            max(self._files.values(), key=lambda file: file.buffered).flush()

    def _planned(self, rows: pa.RecordBatch, key: tuple[Any, ...]) -> pa.RecordBatch:
        """The rows of a queue that are in the range of the plan."""
        topic, _, broker, queue_id = key
        first, end = self._ranges.get(f"{broker}|{topic}|{queue_id}", (0, 0))
        offsets = rows.column("queue_offset")
        inside = pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, end))
        return rows if pc.all(inside).as_py() else rows.filter(inside)

    def _groups(self, batch: pa.RecordBatch) -> Iterator[tuple[pa.RecordBatch, tuple[Any, ...]]]:
        """Split a batch into the rows of each file, in order, with the key of the file.

        If a batch has several groups, the rows are copied: a slice would keep the whole batch in
        memory as long as the file buffers the rows.
        """
        stored = batch.column("store_timestamp").cast(pa.timestamp("us", "UTC"))
        keys = {"topic": batch.column("topic")}
        keys["slot"] = pc.divide(stored.cast(pa.int64()), self._step)
        if self._store is None:
            keys |= {name: batch.column(name) for name in ("broker_name", "queue_id")}
        rows = pa.table({**keys, "row": pa.array(range(batch.num_rows), pa.int64())})
        grouped = rows.group_by(list(keys), use_threads=False).aggregate([("row", "list")])
        for group in grouped.to_batches():
            for at in range(group.num_rows):
                key = tuple(group.column(name)[at].as_py() for name in keys)
                taken = group.column("row_list")[at].values
                yield batch if len(taken) == batch.num_rows else batch.take(taken), key

    def _file(self, key: tuple[Any, ...]) -> _OpenFile:
        found = self._files.pop(key, None)
        if found is None:
            if len(self._files) >= OPEN_FILES_MAX:
                self._close(next(iter(self._files)))
            topic, slot, *queue = key
            folder = layout.folder_name(topic, slot * self._step, self._by)
            source = (
                layout.store_source(self._store) if self._store else layout.queue_source(*queue)
            )
            found = _OpenFile(self, folder, topic, source)
        self._files[key] = found  # at the end of the dict: most recently used
        return found

    def _close(self, key: tuple[Any, ...]) -> None:
        self._written.append(self._files.pop(key).close())

    def close(self) -> list[WrittenFile]:
        """Close all files and return them."""
        for key in list(self._files):
            self._close(key)
        return self._written


def _in_utc(schema: pa.Schema) -> pa.Schema:
    """The schema with timestamps in UTC instead of the session's time zone; same instants."""
    return pa.schema([field.with_type(_type_in_utc(field.type)) for field in schema])


def _type_in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_type_in_utc(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, kind.item_field.with_type(_type_in_utc(kind.item_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_type_in_utc(kind.value_type)))
    return kind

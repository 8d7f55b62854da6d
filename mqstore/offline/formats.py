"""Writers of export files; a file gets its final name only when it is complete."""

from __future__ import annotations

import csv
import errno
import io
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Protocol

from mqcommon import extras
from mqcommon.files import atomic_file
from mqcommon.message import COLUMN_LAYOUTS, ReceivedMessage, decode_messages
from mqcommon.message_row import message_row
from mqstore.offline.materialize import json_lines

__all__ = ["CSV_COLUMNS", "Writer", "whole_file", "writer_of"]

CSV_COLUMNS = (
    "topic", "queueId", "queueOffset", "commitLogOffset", "storeSize", "msgId", "offsetMsgId",
    "tags", "keys", "flag", "sysFlag", "bornTimestamp", "bornHost", "storeTimestamp", "storeTime",
    "storeHost", "reconsumeTimes", "preparedTransactionOffset", "bodyCRC", "properties", "body",
)  # fmt: skip
"""Properties are a JSON object, the body is base64."""
PARQUET_COLUMNS = [name for name in COLUMN_LAYOUTS if name != "raw_properties"]
"""Column names of Arrow and Spark; the body is binary, properties are a map."""
ROW_GROUP_BYTES = 64 << 20
ZSTD_LEVEL = 3


class Writer(Protocol):
    """Writes records to one file."""

    def add(self, records: bytes) -> None:
        """Write consecutive whole records."""

    def finish(self) -> None:
        """Write the rest; the file itself stays open."""


@contextmanager
def whole_file(path: Path, replace: bool) -> Iterator[IO[bytes]]:
    """Write a new file that gets the name `path`, durably, if the block ends without an exception.

    Its permissions follow the umask. Raises FileExistsError if the file exists and must not be
    replaced.
    """
    if not replace and path.exists():
        raise FileExistsError(
            errno.EEXIST, "the file exists already; remove it or give --force", str(path)
        )
    if not path.parent.is_dir():
        raise FileNotFoundError(errno.ENOENT, "the directory does not exist", str(path.parent))
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    with atomic_file(path, mode=0o666, temporary=str(part)) as file:
        yield file


def writer_of(name: str, file: IO[bytes]) -> Writer:
    """A writer of a format of FORMATS.

    Raises ImportError for Parquet if pyarrow is not installed.
    """
    if name == "csv":
        return _Csv(file)
    if name == "parquet":
        return _Parquet(file)
    return _JsonLines(file, name.endswith(".zst"))


class _JsonLines:
    """One JSON object per line, bodies as base64; optionally compressed."""

    def __init__(self, file: IO[bytes], compressed: bool) -> None:
        self._out: Any = file
        self._compressor: Any = None
        if compressed:
            import zstandard

            level = zstandard.ZstdCompressor(level=ZSTD_LEVEL)
            self._out = self._compressor = level.stream_writer(file, closefd=False)

    def add(self, records: bytes) -> None:
        self._out.write(json_lines(records, "base64"))

    def finish(self) -> None:
        if self._compressor is not None:
            self._compressor.close()


class _Csv:
    """One header line, then one line per message."""

    def __init__(self, file: IO[bytes]) -> None:
        self._text = io.TextIOWrapper(file, "utf-8", newline="", write_through=True)
        self._writer = csv.DictWriter(self._text, CSV_COLUMNS, extrasaction="ignore")
        self._writer.writeheader()

    def add(self, records: bytes) -> None:
        self._writer.writerows(map(_csv_row, decode_messages(records)))

    def finish(self) -> None:
        self._text.detach()


def _csv_row(message: ReceivedMessage) -> dict[str, Any]:
    row = message_row(message, "base64")
    row["properties"] = json.dumps(row["properties"], ensure_ascii=False)
    return row


class _Parquet:
    """Columns, in row groups of some tens of megabytes."""

    def __init__(self, file: IO[bytes]) -> None:
        pq = extras.load("pyarrow.parquet", "Parquet")
        from mqstore.arrow import BatchBuilder, arrow_schema

        schema = arrow_schema(PARQUET_COLUMNS)
        self._builder = BatchBuilder(schema)
        self._writer = pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)
        self._batches: list[Any] = []
        self._waiting_bytes = 0

    def add(self, records: bytes) -> None:
        self._builder.add(records)
        if self._builder.full:
            self._take()
        if self._waiting_bytes >= ROW_GROUP_BYTES:
            self._write()

    def _take(self) -> None:
        batch = self._builder.take()
        self._batches.append(batch)
        self._waiting_bytes += batch.nbytes

    def _write(self) -> None:
        pa = extras.load("pyarrow", "Parquet")
        self._writer.write_table(pa.Table.from_batches(self._batches))
        self._batches, self._waiting_bytes = [], 0

    def finish(self) -> None:
        if self._builder.rows:
            self._take()
        if self._batches:
            self._write()
        self._writer.close()

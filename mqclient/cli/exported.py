"""Reads the messages of a file that `mqstore export` or `mqadmin messages export` wrote."""

from __future__ import annotations

import base64
import binascii
import csv
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from mqcommon import extras
from mqcommon.export_formats import format_of
from mqcommon.message import is_body_sound

__all__ = ["ExportedMessage", "read_export"]

_COMPRESSED = 0x1
_CSV_FIELD_CHARACTERS = 128 << 20
"""Largest CSV field, bytes: a body of 64 MiB in base64, with room to spare."""
_ROWS_AT_ONCE = 1_000
PIECE_BYTES = 128 << 10
_NEEDED = ("topic", "queueId", "flag", "sysFlag", "bornTimestamp", "reconsumeTimes", "bodyCRC")


@dataclass(frozen=True, slots=True)
class ExportedMessage:
    """One message of an export."""

    place: str
    """Its place in the file: "line 3" or "row 3"."""
    topic: str
    """Its topic."""
    queue_id: int
    """Its queue."""
    body: bytes
    """The body as sent, decompressed."""
    properties: dict[str, str]
    """Every property, RocketMQ's too."""
    flag: int
    """The flag that the user set."""
    sys_flag: int
    """RocketMQ's flag."""
    born_timestamp_ms: int
    """When the producer made it, milliseconds since the epoch."""
    reconsume_times: int
    """Number of failed deliveries."""


def read_export(
    path: str | os.PathLike[str],
    format: str | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Iterator[ExportedMessage]:
    """The messages of an export, in file order.

    format: one of `mqstore.offline.formats.FORMATS`; None goes by the file's name. progress:
    called with "send", bytes (of Parquet: rows) read, and their total.
    Raises ValueError that names the line that is damaged or is not an exported message.
    """
    path = Path(path)
    name = format_of(path, format)
    report = progress or (lambda step, done, total: None)
    with path.open("rb") as file:
        if name == "parquet":
            yield from _parquet(path, file, report)
        elif name == "csv":
            yield from _csv(path, _Counted(path, file, report).text())
        else:
            compressed = name.endswith(".zst")
            yield from _json_lines(path, _Counted(path, file, report).text(compressed))


class _Counted(io.RawIOBase):
    """A file that counts the bytes that were read."""

    def __init__(
        self, path: Path, file: IO[bytes], report: Callable[[str, int, int], None]
    ) -> None:
        self._path, self._file, self._report = path, file, report
        self._total = os.fstat(file.fileno()).st_size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        read = self._file.readinto(buffer)  # type: ignore[attr-defined]
        self._report("send", self._file.tell(), self._total)
        return int(read)

    def text(self, compressed: bool = False) -> io.TextIOWrapper:
        """Its text, decompressed if necessary."""
        raw = io.BufferedReader(self, 1 << 20)
        plain = io.BufferedReader(_Unpacked(raw), 1 << 20) if compressed else raw
        return io.TextIOWrapper(plain, "utf-8", newline="")


class _Unpacked(io.RawIOBase):
    """A zstd file, decompressed; a truncated file is an error."""

    def __init__(self, packed: IO[bytes]) -> None:
        self._packed = packed
        self._unpacker: Any = _unpacker()
        self._ready = memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            if self._unpacker.eof:  # several zstd files may be concatenated
                piece = self._unpacker.unused_data or self._packed.read(PIECE_BYTES)
                if not piece:
                    return 0
                self._unpacker = _unpacker()
            elif not (piece := self._packed.read(PIECE_BYTES)):
                raise OSError("the zstd stream is truncated")
            self._ready = memoryview(_unpack(self._unpacker, piece))
        size = min(len(buffer), len(self._ready))
        buffer[:size] = self._ready[:size]
        self._ready = self._ready[size:]
        return size


def _unpacker() -> Any:
    import zstandard

    return zstandard.ZstdDecompressor().decompressobj()


def _unpack(unpacker: Any, piece: bytes) -> bytes:
    import zstandard

    try:
        return bytes(unpacker.decompress(piece))
    except zstandard.ZstdError as error:
        raise OSError(f"the zstd stream is damaged: {error}") from error


def _json_lines(path: Path, text: io.TextIOWrapper) -> Iterator[ExportedMessage]:
    lines = _checked_text(path, text)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise _no_export(path, f"line {number}", f"not JSON: {error}") from None
        if not isinstance(row, dict):
            raise _no_export(path, f"line {number}", "not a JSON object")
        yield _message(path, f"line {number}", row, row.get("properties"))


def _checked_text(path: Path, text: io.TextIOWrapper) -> Iterator[str]:
    """Lines; an error of decompression or decoding names its place."""
    number = 0
    try:
        for line in text:
            number += 1
            yield line
    except (UnicodeDecodeError, OSError) as error:
        raise _no_export(path, f"line {number + 1}", str(error)) from error


def _csv(path: Path, text: io.TextIOWrapper) -> Iterator[ExportedMessage]:
    csv.field_size_limit(_CSV_FIELD_CHARACTERS)
    rows = csv.DictReader(_checked_text(path, text))
    while True:
        place = f"line {rows.line_num + 1}"
        try:
            row = next(rows)
            properties = json.loads(row.get("properties") or "")
        except StopIteration:
            return
        except (csv.Error, ValueError) as error:
            raise _no_export(path, place, str(error)) from None
        yield _message(path, place, row, properties)


def _parquet(
    path: Path, file: IO[bytes], report: Callable[[str, int, int], None]
) -> Iterator[ExportedMessage]:
    pa, pq = extras.load("pyarrow", "Parquet"), extras.load("pyarrow.parquet", "Parquet")
    try:
        table = pq.ParquetFile(file, page_checksum_verification=True)
        number, total = 0, table.metadata.num_rows
        for batch in table.iter_batches(_ROWS_AT_ONCE):
            for row in batch.to_pylist():
                number += 1
                yield _message_of_columns(path, f"row {number}", row)
            report("send", number, total)
    except (pa.ArrowException, OSError, UnicodeDecodeError, OverflowError) as error:
        raise _no_export(path, "the file", str(error)) from None


def _message_of_columns(path: Path, place: str, row: dict[str, Any]) -> ExportedMessage:
    """A row under the names of the Arrow columns."""
    try:
        message = ExportedMessage(
            place,
            row["topic"],
            row["queue_id"],
            row["body"],
            dict(row["properties"]),
            row["flag"],
            row["sys_flag"],
            round(row["born_timestamp"].timestamp() * 1000),
            row["reconsume_times"],
        )
        return _checked(path, message, row["body_crc"])
    except (KeyError, TypeError, AttributeError) as error:
        raise _no_export(path, place, f"column {error}") from None


def _message(path: Path, place: str, row: Mapping[str, Any], properties: Any) -> ExportedMessage:
    missing = [name for name in (*_NEEDED, "body") if row.get(name) is None]
    if missing:
        raise _no_export(path, place, f"it has no {', '.join(missing)}")
    if not isinstance(properties, dict):
        raise _no_export(path, place, "its properties are not an object")
    try:
        numbers = {name: int(row[name]) for name in _NEEDED[1:]}
        body = base64.b64decode(row["body"], validate=True)
    except (ValueError, TypeError, binascii.Error) as error:
        raise _no_export(path, place, str(error)) from None
    message = ExportedMessage(
        place,
        str(row["topic"]),
        numbers["queueId"],
        body,
        {str(name): str(value) for name, value in properties.items()},
        numbers["flag"],
        numbers["sysFlag"],
        numbers["bornTimestamp"],
        numbers["reconsumeTimes"],
    )
    return _checked(path, message, numbers["bodyCRC"])


def _checked(path: Path, message: ExportedMessage, body_crc: int) -> ExportedMessage:
    """The message; ValueError if its body differs from the body that was stored."""
    is_plain = not message.sys_flag & _COMPRESSED  # else the checksum is of the compressed body
    if is_plain and not is_body_sound(message.body, body_crc):
        raise _no_export(path, message.place, "its body does not match its bodyCRC")
    return message


def _no_export(path: Path, place: str, what: str) -> ValueError:
    return ValueError(
        f"{path}, {place}: {what}; to create such a file: mqstore export DIRECTORY --to FILE, or "
        "mqadmin messages export -t TOPIC > FILE.jsonl"
    )

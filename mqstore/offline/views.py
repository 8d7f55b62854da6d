"""Consume queues and index as numpy arrays over the mapped files, without a copy.

Needs numpy (`pip install mqstack[views]`).

The arrays are read-only maps of the files. They see what a running broker appends, and stay
valid when it deletes a file.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqcommon import extras
from mqstore.offline.report import Layout

if TYPE_CHECKING:
    import numpy

    Array = numpy.ndarray[Any, Any]

__all__ = [
    "HOLE_BYTES",
    "HOLE_TAGS_CODE",
    "INDEX_ENTRY_FIELDS",
    "QUEUE_UNIT_FIELDS",
    "IndexView",
    "QueueView",
    "index_views",
    "queue_views",
]

QUEUE_UNIT_FIELDS = [("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")]
"""A consume-queue entry as a numpy type: 20 bytes, big-endian."""
INDEX_ENTRY_FIELDS = [
    ("key_hash", ">i4"), ("physical_offset", ">i8"), ("seconds", ">i4"), ("previous", ">i4"),
]  # fmt: skip
"""An index entry: `seconds` after the file's first message, `previous` entry of its slot or 0."""
HOLE_BYTES = 0x7FFFFFFF
"""Size in an entry that only fills the space before a queue's first entry."""
HOLE_TAGS_CODE = int.from_bytes(b"mqstack\0", "big")
"""Tags code of an entry whose record was lost; the entry points to the next entry's record."""
UNIT_BYTES = 20
_NAME_DIGITS = 20
_INDEX_HEAD_BYTES = 40


@dataclass(frozen=True, slots=True)
class QueueView:
    """One file of a consume queue."""

    first_offset: int
    """Queue offset of `units[0]`."""
    units: Array
    """Its used entries: fields physical_offset, size, tags_code; see QUEUE_UNIT_FIELDS.

    A size of HOLE_BYTES or a tags code of HOLE_TAGS_CODE marks an entry without a record."""


@dataclass(frozen=True, slots=True)
class IndexView:
    """One index file."""

    name: str
    """The file's name: local time of its creation, yyyyMMddHHmmssSSS."""
    begin_timestamp_ms: int
    """Store time of its first message; entries count seconds from it."""
    end_timestamp_ms: int
    """Store time of its last message."""
    begin_physical_offset: int
    """Physical offset of its first message."""
    end_physical_offset: int
    """Physical offset of its last message."""
    slots: Array
    """The newest entry of each slot (hash modulo their number), 0 for none."""
    entries: Array
    """Entries by number, see INDEX_ENTRY_FIELDS; number 0 is never used."""


def queue_views(directory: Path) -> Iterator[QueueView]:
    """The files of a consume queue in order, each as an array over its used entries."""
    numpy = extras.load("numpy", "a view of a queue")
    for path in sorted(directory.glob("[0-9]" * _NAME_DIGITS)):
        length = path.stat().st_size // UNIT_BYTES
        if not length:
            continue
        units = numpy.memmap(path, dtype=QUEUE_UNIT_FIELDS, mode="r", shape=(length,))
        first = int(path.name) // UNIT_BYTES
        yield QueueView(first, numpy.asarray(units[: _used(units)]))


def _used(units: Array) -> int:
    """Number of written entries: the rest of a file is zero, its sizes too."""
    low, high = 0, len(units)
    while low < high:
        middle = (low + high) // 2
        if units["size"][middle] > 0:
            low = middle + 1
        else:
            high = middle
    return low


def index_views(
    root: Path, layout: Layout, headers: list[tuple[str, int, int, int, int, int, int]]
) -> Iterator[IndexView]:
    """The index files in order.

    headers: name, begin and end time, begin and end physical offset, used slots, entries.
    """
    numpy = extras.load("numpy", "a view of the index")
    slots = layout.index_slots or 0
    for name, begin_ms, end_ms, begin_at, end_at, _, count in headers:
        whole = numpy.asarray(numpy.memmap(root / "index" / name, dtype=numpy.uint8, mode="r"))
        table = whole[_INDEX_HEAD_BYTES:]
        entries = table[4 * slots :].view(INDEX_ENTRY_FIELDS)[: count + 1]
        heads = table[: 4 * slots].view(">i4")
        yield IndexView(name, begin_ms, end_ms, begin_at, end_at, heads, entries)

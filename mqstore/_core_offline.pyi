"""The part of `mqstore._core` that reads and repairs a store's files without a server.

There is no module of this name: `_core.pyi` re-exports all of it.
"""

from collections.abc import Callable, Sequence, Set
from os import PathLike
from typing import Any, Final, Self, final

from mqstore.offline.walk import Wanted

# --- a store directory read as it is (see mqstore/offline/)

@final
class Scan:
    """A store directory, read as it is: no lock, no recovery, nothing created."""

    def __new__(cls, root: str | PathLike[str]) -> Self: ...
    def layout(self) -> tuple[int | None, int | None, int | None, int | None]:
        """Bytes of a log file, of a queue file; slots, entries of an index file; None: no file."""
    def state(self) -> tuple[bool, bool, tuple[int, int, int] | None]:
        """Whether it was closed cleanly (no `abort`), whether a broker holds the lock, and the
        checkpoint's log, queue and index time in milliseconds; None: no checkpoint."""
    def unread(self) -> list[tuple[str, str]]:
        """Files of a newer RocketMQ that cannot be read: path in the store, description."""
    def min_physical_offset(self) -> int:
        """Start of the log in bytes."""
    def max_physical_offset(self) -> int:
        """End of the last log file, at or after the end of the last record."""
    def records(self, offset: int, max_bytes: int, check_crc: bool) -> tuple[bytes, list[int], int]:
        """The next whole records: bytes, where each starts, where the next chunk begins.

        At least one record; nothing and `offset` itself at the end of the log or at damage.
        """
    def select(
        self,
        offset: int,
        max_bytes: int,
        *,
        stop: int | None = None,
        topic: str | None = None,
        queue_id: int | None = None,
        tag: str | None = None,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        check_crc: bool = False,
    ) -> tuple[bytes, int, int, str]:
        """The next selected records: bytes, number, where the next chunk begins, and why it
        ended: "more" (continue there, also after an empty chunk), "stop" (no later record matches),
        "unreadable" (no record starts there: the log ends or is damaged, see `next_record_after`).

        Takes at least one record and about `max_bytes`; looks at 64 MiB of log at most.
        stop: records that start there or later are not selected. begin_ms, end_ms: store time
        from, and up to and with, in milliseconds; files outside it are not read.
        """
    def next_record_after(self, offset: int) -> int | None:
        """Start of the first record after a place at which none starts; None if the log ends there.

        A record counts if its body is whole, its offset is right, and it is younger than what
        precedes it: remains after the end of a log do not. Reads from the file's start.
        """
    def file_starts(self) -> list[tuple[int, int | None]]:
        """Each log file: its first byte, store time of its first record; None: no record."""
    def record_at(self, physical_offset: int) -> bytes | None:
        """The record that starts at a physical offset, or None."""
    def queues(self) -> list[tuple[str, int, int, int]]:
        """Every consume queue: topic, queue id, first readable offset, one past the last."""
    def queue_entries(self, topic: str, queue_id: int, offset: int, max_count: int) -> bytes:
        """Raw 20-byte entries of a queue from a queue offset on."""
    def queue_records(
        self,
        topic: str,
        queue_id: int,
        offset: int,
        max_bytes: int,
        *,
        stop: int | None = None,
        check_crc: bool = False,
    ) -> tuple[bytes, int, int, bool]:
        """Records of one queue from a queue offset on, by its entries: bytes, number, the next
        queue offset, whether there are more. Entries without a readable record are skipped."""
    def index_files(self) -> list[tuple[str, int, int, int, int, int, int]]:
        """Index files, oldest first: name, begin and end time in milliseconds, begin and end
        physical offset, used slots, entries."""
    def index_slots(self, name: str) -> bytes:
        """The slots of an index file: big-endian int32 each, the newest entry's number or 0."""
    def index_entries(self, name: str, start: int, max_count: int) -> bytes:
        """Raw 20-byte entries (key hash i4, physical offset i8, seconds i4, previous i4, all
        big-endian) from number `start` (at least 1) on."""
    def lookup(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> list[int]:
        """Physical offsets of records whose index key may be `topic#key`, newest first."""
    def verify(self, progress: Callable[[int], None] | None) -> Report:
        """Compare log, queues, extension, index, checkpoint and state files with each other;
        Ctrl-C and exceptions of `progress` (given the physical offset) stop it."""

@final
class Report:
    """Result of a check of a store."""

    @property
    def records(self) -> int:
        """Good records."""
    @property
    def record_bytes(self) -> int:
        """Their bytes."""
    @property
    def queue_entries(self) -> int:
        """Queue entries that were checked."""
    @property
    def extension_units(self) -> int:
        """Consume-queue extension units that were checked."""
    @property
    def index_entries(self) -> int:
        """Index entries that were checked."""
    @property
    def offsets(self) -> int:
        """Committed and delay offsets that were checked."""
    @property
    def log_end(self) -> int:
        """Where the last good record ends, bytes."""
    @property
    def finding_count(self) -> int:
        """Findings in all."""
    @property
    def findings(self) -> list[tuple[str, str, int, str]]:
        """Kind, place, offset (-1 for none) and text of the first thousand findings of damage."""
    @property
    def notices(self) -> list[tuple[str, str, int, str]]:
        """The same for findings that are no damage; the next open repairs most of them."""

def json_lines(records: bytes, body: str) -> bytes:
    """Whole records as JSON lines, one each, as `json.dumps(..., ensure_ascii=False)` writes
    `mqstore.offline.rows.message_row`. body: "none", "text", "hex" or "base64". ValueError for
    bytes that are no record. Releases the GIL."""

# --- the log as JSON lines and as Arrow's columns (see mqstore/offline/reader.py, arrow.py)

@final
class Memory:
    """Read-only bytes from native code, by the buffer protocol."""

    def __len__(self) -> int: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

@final
class LinesAhead:
    """The selected records from `offset` on as JSON lines, rendered ahead by threads.

    chunk_bytes: about how many bytes of records to take at once. body: as in `json_lines`.
    """

    def __new__(
        cls, scan: Scan, offset: int, chunk_bytes: int, wanted: Wanted, body: str
    ) -> Self: ...
    def step(self) -> tuple[Memory, int, str]:
        """The next lines, where they continue, why they ended there (see `Scan.select`; unless it
        is "more", this was the last step)."""
    def write(self, descriptor: int) -> tuple[int, str]:
        """Write all lines to an open file; returns where they end and why, like `step`. The GIL
        is released."""

@final
class ColumnsAhead:
    """The selected records from `offset` on as column buffers, built ahead by threads.

    chunk_bytes: about how many bytes of records to take at once. columns, queue_ids, tags: as
    in ColumnBuilder.
    """

    def __new__(
        cls,
        scan: Scan,
        offset: int,
        chunk_bytes: int,
        wanted: Wanted,
        columns: Sequence[str],
        *,
        queue_ids: Set[int] | None = None,
        tags: Set[str] | None = None,
    ) -> Self: ...
    def step(self) -> tuple[tuple[int, dict[str, tuple[Any, ...]]], int, str]:
        """Rows and columns as ColumnBuilder.take gives them, where they continue, why they ended
        there (as in LinesAhead.step)."""

COLUMN_LAYOUTS: Final[dict[str, str]]
"""Columns of a ColumnBuilder: name to int32, int64, timestamp, string, binary or map."""

@final
class ColumnBuilder:
    """Collects stored messages as column buffers in Arrow's layout.

    columns: names of COLUMN_LAYOUTS; only these are decoded. ValueError for another name.
    """

    def __new__(cls, columns: Sequence[str]) -> Self: ...
    @property
    def rows(self) -> int:
        """Messages collected since the last take."""
    @property
    def size_bytes(self) -> int:
        """Approximate bytes collected since the last take."""
    def add(
        self,
        body: bytes,
        *,
        topic: str | None = None,
        queue_ids: Set[int] | None = None,
        tags: Set[str] | None = None,
        first_queue_offset: int = 0,
        end_queue_offset: int = 9223372036854775807,
        end_physical_offset: int = 9223372036854775807,
    ) -> int:
        """Add the selected records of `body`; returns their number.

        topic, queue_ids, tags: only these, None for all. The offsets bound which
        messages count: from the first on, before the ends.
        Raises DecodeError naming the byte at which a record is malformed, OverflowError if a
        column grows beyond 2 GiB.
        """
    def take(self) -> dict[str, tuple[Any, ...]]:
        """The collected buffers by column; the builder is empty afterwards.

        Numbers: (None, data). Text and binary: (validity or None, int32 ends, bytes). A map:
        (int32 row ends, pairs, (name ends, bytes), (value ends, bytes)).
        """

# --- repair (see mqstore/offline/mend.py)

def rebuild(
    root: str | PathLike[str],
    to: str | PathLike[str] | None,
    progress: Callable[[str, int, int], None] | None = None,
    *,
    repairs: bool,
    delay_levels: str | None = None,
    index_slots: int | None = None,
    index_entries: int | None = None,
) -> RepairReport:
    """Rebuild consume queues, their extension if there is one, index and checkpoint from the
    log. to: None does it in place, under the store's lock; else a directory that does not exist
    yet or is empty gets a complete store and `root` stays as it is. The log is not changed: a
    damaged one raises StoreDamaged.

    repairs: first repair the log from its first byte on: a damaged range before good records
    is saved to mqstack/quarantine and overwritten with records that no consumer sees, a torn
    tail is truncated; unreadable state files are replaced by their .bak, committed offsets beyond a
    queue's end are set back to it.
    progress: called with a step ("copy", "check", "build"), bytes done and total bytes; Ctrl-C
    and its exceptions stop the work; `root` is then unchanged, or (in place) a store that the next
    open completes. delay_levels: messageDelayLevel, if it is not RocketMQ's default. index_slots,
    index_entries: maxHashSlotNum and maxIndexNum, where the index files do not tell them.
    Raises StoreLocked in place while a broker runs, FileExistsError for a `to` with content.
    """

@final
class RepairReport:
    """Result of `rebuild`."""

    @property
    def root(self) -> str:
        """Where the result is."""
    @property
    def log_start(self) -> int:
        """First byte of the log."""
    @property
    def log_end(self) -> int:
        """Where the next message will be appended."""
    @property
    def records(self) -> int:
        """Records kept."""
    @property
    def healed(self) -> list[tuple[int, int, str]]:
        """Damaged ranges [from, to) overwritten, and the file that keeps their bytes."""
    @property
    def cut(self) -> tuple[int, int] | None:
        """[from, to) at the log's end that held no usable record and is empty now."""
    @property
    def queues(self) -> int:
        """Consume queues written."""
    @property
    def queue_entries(self) -> int:
        """Their entries."""
    @property
    def kept_queues(self) -> list[tuple[str, int]]:
        """Queues whose messages have all expired, kept so that their offsets continue."""
    @property
    def index_entries(self) -> int:
        """Index entries written."""
    @property
    def restored(self) -> list[str]:
        """State files taken from their .bak."""
    @property
    def groups(self) -> list[tuple[str, str, int, int, int, int, int, int]]:
        """Per group and queue: group, topic, queue id, the committed offset before, the offset
        the group continues from, messages it will get from there, of these messages it had consumed
        before (replayed), messages it will never get (skipped: damaged, truncated or expired)."""

"""The part of `mqcommon._core` that reads and repairs a store's files without a server.

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
        """Bytes of a log file and of a queue file, slots and entries of an index file.

        None for values that no file shows.
        """
    def state(self) -> tuple[bool, bool, tuple[int, int, int] | None]:
        """Whether the store was closed cleanly (no `abort`), whether a broker holds the lock, and
        the checkpoint's log, queue and index time in milliseconds; None if there is no checkpoint.
        """
    def unread(self) -> list[tuple[str, str]]:
        """Files of a newer RocketMQ that cannot be read: path in the store, description."""
    def min_physical_offset(self) -> int:
        """Start of the log in bytes."""
    def max_physical_offset(self) -> int:
        """End of the last log file, at or after the end of the last record."""
    def records(self, offset: int, max_bytes: int, check_crc: bool) -> tuple[bytes, list[int], int]:
        """The next whole records: bytes, offset of each, offset of the next chunk.

        Returns at least one record. At the end of the log or at damage it returns no records and
        `offset` itself.
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
        """The next selected records: bytes, number, offset of the next chunk, reason for the end.

        The reason is "more" (continue there, also after an empty chunk), "stop" (no later record
        matches) or "unreadable" (no record starts there: the log ends or is damaged, see
        `next_record_after`). A chunk has at least one record and about `max_bytes`, from at most
        64 MiB of log.
        stop: records that start there or later are not selected. begin_ms, end_ms: first and last
        store time in milliseconds; files outside this range are not read.
        """
    def next_record_after(self, offset: int) -> int | None:
        """Start of the first record after an offset where no record starts; None at the log's end.

        A record counts if its body is whole, its offset is right, and it is younger than the
        records before it. Remains after the end of a log therefore do not count. Reads from the
        file's start.
        """
    def file_starts(self) -> list[tuple[int, int | None]]:
        """Each log file: offset of its first byte, and store time of its first record, if any."""
    def record_at(self, physical_offset: int) -> bytes | None:
        """The record that starts at a physical offset, or None."""
    def queues(self) -> list[tuple[str, int, int, int]]:
        """Every consume queue: topic, queue id, first readable offset, one past the last."""
    def queue_entries(self, topic: str, queue_id: int, offset: int, max_count: int) -> bytes:
        """The 20-byte entries of a queue from a queue offset on, as stored."""
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
        """Records of one queue from a queue offset on, found through the queue's entries.

        Returns bytes, number of records, the next queue offset, and whether there are more.
        Entries without a readable record are skipped.
        """
    def index_files(self) -> list[tuple[str, int, int, int, int, int, int]]:
        """Index files, oldest first: name, begin and end time in milliseconds, begin and end
        physical offset, used slots, entries."""
    def index_slots(self, name: str) -> bytes:
        """The slots of an index file: big-endian int32 each, the newest entry's number or 0."""
    def index_entries(self, name: str, start: int, max_count: int) -> bytes:
        """The 20-byte entries of an index file from number `start` (at least 1) on, as stored.

        An entry is key hash i4, physical offset i8, seconds i4, previous entry i4, big-endian.
        """
    def lookup(self, topic: str, key: str, max_count: int, begin_ms: int, end_ms: int) -> list[int]:
        """Physical offsets of records whose index key may be `topic#key`, newest first."""
    def verify(self, progress: Callable[[int], None] | None) -> Report:
        """Compare log, queues, extension, index, checkpoint and state files with each other.

        progress: gets the physical offset. Its exceptions and Ctrl-C stop the check.
        """

@final
class Report:
    """Result of a check of a store."""

    @property
    def records(self) -> int:
        """Number of good records."""
    @property
    def record_bytes(self) -> int:
        """Size of the good records in bytes."""
    @property
    def queue_entries(self) -> int:
        """Number of queue entries that were checked."""
    @property
    def extension_units(self) -> int:
        """Number of consume-queue extension units that were checked."""
    @property
    def index_entries(self) -> int:
        """Number of index entries that were checked."""
    @property
    def offsets(self) -> int:
        """Number of committed offsets and delay offsets that were checked."""
    @property
    def log_end(self) -> int:
        """Physical offset at which the last good record ends."""
    @property
    def finding_count(self) -> int:
        """Number of findings, including those beyond the first thousand."""
    @property
    def findings(self) -> list[tuple[str, str, int, str]]:
        """Kind, place, offset (-1 for none) and text of the first thousand findings of damage."""
    @property
    def notices(self) -> list[tuple[str, str, int, str]]:
        """The same for findings that are not damage; the next open repairs most of them."""

def json_lines(records: bytes, body: str) -> bytes:
    """Write whole records as JSON, one line per record. Releases the GIL.

    A line is what `json.dumps(..., ensure_ascii=False)` writes for
    `mqcommon.message_row.message_row`. body: "none", "text", "hex" or "base64".
    Raises ValueError for bytes that are not a record.
    """

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
        """The next lines, the offset of the lines after them, and the reason for the end
        (`Scan.select`).

        If the reason is not "more", this was the last step.
        """
    def write(self, descriptor: int) -> tuple[int, str]:
        """Write all lines to an open file; returns where they end and why, like `step`.

        Releases the GIL.
        """

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
        """The next rows, the offset of the rows after them, and the reason for the end
        (LinesAhead.step).

        Rows are their number and the columns as in ColumnBuilder.take.
        """

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

        topic, queue_ids, tags: add only these; None for all. The offsets select messages from
        the first offset on and before the end offsets.
        Raises DecodeError, which names the byte at which a record is malformed, and OverflowError
        if a column grows beyond 2 GiB.
        """
    def take(self) -> dict[str, tuple[Any, ...]]:
        """The collected buffers by column; the builder is empty afterwards.

        Numbers: (None, data). Text and binary: (validity or None, int32 ends, bytes). A map:
        (int32 row ends, pairs, (name ends, bytes), (value ends, bytes)).
        """

# --- repair (see mqstore/offline/repairing.py)

def cut_log(root: str | PathLike[str], offset: int) -> tuple[int, int]:
    """End the log of a closed store with the last record that ends at `offset` or before it.

    The cut bytes are kept in mqstack/quarantine. Queues and index must be rebuilt afterwards.
    Returns the range that was cut. Raises SettingError for an offset outside the log, StoreLocked
    while a broker runs on the store, and StoreDamaged if the log has no records up to there.
    """

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
    """Rebuild consume queues, their extension if there is one, index and checkpoint from the log.

    The log itself is not changed without `repairs`; a damaged log raises StoreDamaged.

    to: a directory, empty or not yet there, that gets a complete store; `root` is not changed.
    None rebuilds in place, under the store's lock.
    repairs: first repair the log and the state files:
    - A damaged range before good records is saved to mqstack/quarantine and overwritten with
      records that no consumer sees.
    - A torn tail is truncated.
    - An unreadable state file is replaced by its .bak.
    - A committed offset beyond a queue's end is set back to the end.

    progress: called with a step ("copy", "check", "build"), bytes done and total bytes. Its
    exceptions and Ctrl-C stop the work. `root` is then unchanged or, in place, a store that the
    next open completes.
    delay_levels: messageDelayLevel, if it is not RocketMQ's default. index_slots, index_entries:
    maxHashSlotNum and maxIndexNum, needed only if the index files do not show them.
    Raises StoreLocked if a broker runs on the store, FileExistsError if `to` is not empty.
    """

@final
class RepairReport:
    """Result of `rebuild`."""

    @property
    def root(self) -> str:
        """The directory of the result."""
    @property
    def log_start(self) -> int:
        """Physical offset of the log's first byte."""
    @property
    def log_end(self) -> int:
        """Physical offset at which the next message will be appended."""
    @property
    def records(self) -> int:
        """Number of records that were kept."""
    @property
    def repaired(self) -> list[tuple[int, int, str]]:
        """Damaged ranges [from, to) that were overwritten, and the file that keeps their bytes."""
    @property
    def cut(self) -> tuple[int, int] | None:
        """Range [from, to) at the log's end that had no usable record and is empty now."""
    @property
    def queues(self) -> int:
        """Number of consume queues that were written."""
    @property
    def queue_entries(self) -> int:
        """Number of entries of these queues."""
    @property
    def kept_queues(self) -> list[tuple[str, int]]:
        """Queues whose messages have all expired, kept so that their offsets continue."""
    @property
    def index_entries(self) -> int:
        """Number of index entries that were written."""
    @property
    def restored(self) -> list[str]:
        """State files that were replaced by their .bak."""
    @property
    def groups(self) -> list[tuple[str, str, int, int, int, int, int, int]]:
        """Where each group continues in each queue.

        A row is group, topic, queue id, the committed offset before, the offset at which the group
        continues, and three numbers of messages: those it will get, those among them that it had
        consumed before (replayed), and those it will never get (skipped: damaged, truncated or
        expired).
        """

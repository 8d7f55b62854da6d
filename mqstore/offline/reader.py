"""Read-only access to a store directory: records, queues, index, checks."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Collection, Iterator, Set
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqcommon import _core, extras
from mqcommon.message import (
    COLUMN_LAYOUTS,
    ReceivedMessage,
    decode_messages,
    parse_offset_msg_id,
)
from mqstore.offline import materialize, state
from mqstore.offline.walk import AheadWalk, Chunk, Gap, LogWalk, Wanted, follow

if TYPE_CHECKING:
    import numpy

    from mqstore.offline.report import Checkpoint, Condition, Layout, QueueSummary, VerifyReport
    from mqstore.offline.stat import StoreStat
    from mqstore.offline.views import IndexView, QueueView

__all__ = ["StoreReader", "open"]

log = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20
"""Bytes of the log per read."""
UNITS_AT_ONCE = 10_000
"""Queue entries per read."""
_TIME_MAX_MS = 2**63 - 1
_INDEX_STEP_MS = 1000  # the index holds store times in seconds, rounded down


class StoreReader:
    """A store directory, read as it is. `open` makes one; safe from any thread.

    It uses the log files that existed when it was opened, and sees records that are appended to
    them later. For files that are created later, call `open` again, or use `follow`.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        """Root of the store."""
        self._scan = _core.Scan(os.fspath(path))

    @property
    def layout(self) -> Layout:
        """Sizes of the store's files."""
        from mqstore.offline.report import Layout

        return Layout(*self._scan.layout())

    @property
    def min_physical_offset(self) -> int:
        """Start of the log, bytes."""
        return self._scan.min_physical_offset()

    @property
    def max_physical_offset(self) -> int:
        """End of the last log file, bytes: at or after the end of the last record."""
        return self._scan.max_physical_offset()

    def end_physical_offset(self, known: int = 0) -> int:
        """End of the log now, bytes: where the last record ends and a broker would append.

        known: a physical offset where a record ends; nothing before it is read. Without it, the
        whole last file with records is read. Damage may hide later records: compare `queued_end`.
        """
        start, end = self.min_physical_offset, self.max_physical_offset
        file_bytes = self.layout.commit_log_file_bytes
        while file_bytes and end - file_bytes > start and self.message_at(end - file_bytes) is None:
            end -= file_bytes  # a file that was allocated ahead is still empty
        reached = max(start, end - (file_bytes or 0), known)
        for chunk in self.chunks(reached):
            reached = chunk.next_offset
        return reached

    def queued_end(self) -> int:
        """End of the newest record that a consume queue lists, bytes from the log's start.

        A value above `end_physical_offset` means that records are damaged or lost.
        """
        return max((at + size for at, size in self._queue_ends()), default=self.min_physical_offset)

    def _queue_ends(self) -> list[tuple[int, int]]:
        """The newest entry of each queue: physical offset and size of its record."""
        from mqstore.offline.views import HOLE_BYTES

        ends = []
        for queue in self.queues():
            for unit in self.queue_units(queue.topic, queue.queue_id, queue.max_offset - 1, 1):
                if unit["size"] != HOLE_BYTES:
                    ends.append((int(unit["physical_offset"]), int(unit["size"])))
        return ends

    def chunks(self, start: int | None = None, *, check_crc: bool = False) -> Iterator[Chunk]:
        """Whole records, about a mebibyte at a time.

        start: physical offset of a record; None for the first. Stops at the log's end or at damage;
        with `check_crc` also before a body that does not match its checksum.
        """
        offset = self.min_physical_offset if start is None else start
        while True:
            chunk = Chunk(*self._scan.records(offset, CHUNK_BYTES, check_crc))
            if chunk.body:
                yield chunk
            if chunk.next_offset == offset:
                return
            offset = chunk.next_offset

    def walk(
        self,
        start: int | None = None,
        wanted: Wanted | None = None,
        on_gap: Callable[[Gap], None] | None = None,
    ) -> LogWalk:
        """The selected records as bytes, a mebibyte at a time; skips damage.

        start: physical offset of a record; None for the first that can match. on_gap: called
        with each unreadable range before good records; the default logs a warning.
        """
        return LogWalk(*self._walk_words(start, wanted, on_gap))

    def _walk_words(
        self, start: int | None, wanted: Wanted | None, on_gap: Callable[[Gap], None] | None
    ) -> tuple[_core.Scan, int, Wanted, Callable[[Gap], None]]:
        at = self.min_physical_offset if start is None else start
        return self._scan, at, wanted or Wanted(), on_gap or self._warn_of_gap

    def _warn_of_gap(self, gap: Gap) -> None:
        log.warning(
            "%s: %d bytes of the log from offset %d are unreadable; for details: mqstore verify %s",
            self.path, gap.end - gap.start, gap.start, self.path,
        )  # fmt: skip

    def follow(
        self,
        start: int | None = None,
        wanted: Wanted | None = None,
        on_gap: Callable[[Gap], None] | None = None,
    ) -> Iterator[bytes]:
        """`walk`, and then the records that a broker appends, until the generator is closed.

        Yields b"" after each wait without new records, which lasts at most 0.2 s.
        """
        walk = self.walk(start, wanted, on_gap)
        return follow(walk, self.path / "commitlog", lambda: _core.Scan(os.fspath(self.path)))

    def records(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        topic: str | None = None,
        queue_id: int | None = None,
        tag: str | None = None,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        check_crc: bool = False,
    ) -> Iterator[ReceivedMessage]:
        """Every record of the log, in log order.

        start, stop: physical offsets; a record that starts at `stop` is not included. topic,
        queue_id, tag: only these. begin_ms, end_ms: store time, both inclusive. check_crc: skip
        records whose body does not match its checksum. RocketMQ's internal records are included:
        half messages, delayed messages, and messages of rolled-back transactions.
        An unreadable range before good records is logged as a warning; see `verify`.
        """
        wanted = Wanted(
            stop=stop, topic=topic, queue_id=queue_id, tag=tag,
            begin_ms=begin_ms, end_ms=end_ms, check_crc=check_crc,
        )  # fmt: skip
        for body in self.walk(start, wanted):
            yield from decode_messages(body)

    def first_message(self) -> ReceivedMessage | None:
        """The oldest record of the log, or None."""
        return next(self.records(), None)

    def last_message(self) -> ReceivedMessage | None:
        """The newest record, from the queues and the log after them."""
        ends = sorted((at for at, _ in self._queue_ends()), reverse=True)
        newest = next((m for m in map(self.message_at, ends) if m is not None), None)
        starts = [at for at, first_ms in self._scan.file_starts() if first_ms is not None]
        if newest is not None:
            starts.append(newest.commit_log_offset)
        for records in self.walk(max(starts, default=None)):
            newest = decode_messages(records)[-1]
        return newest

    def message_at(self, physical_offset: int) -> ReceivedMessage | None:
        """The record that starts at a physical offset, or None if none does."""
        record = self._scan.record_at(physical_offset)
        return None if record is None else decode_messages(record)[0]

    def queues(self) -> list[QueueSummary]:
        """Every consume queue, by topic and queue id."""
        from mqstore.offline.report import QueueSummary

        return sorted(QueueSummary(*row) for row in self._scan.queues())

    def queue_views(self, topic: str, queue_id: int) -> Iterator[QueueView]:
        """The files of a queue in order, as structured numpy arrays over the mapped files.

        Nothing is copied. Entries whose records were deleted are included: compare
        `QueueSummary.min_offset`.
        """
        from mqstore.offline.views import queue_views

        return queue_views(self.path / "consumequeue" / topic / str(queue_id))

    def index_views(self) -> Iterator[IndexView]:
        """The index files in order: header, slots and entries, as numpy arrays over the files."""
        from mqstore.offline.views import index_views

        return index_views(self.path, self.layout, self._scan.index_files())

    def queue_units(
        self, topic: str, queue_id: int, start: int = 0, count: int = UNITS_AT_ONCE
    ) -> numpy.ndarray[Any, Any]:
        """Entries of a consume queue from a queue offset on, as a structured numpy array.

        Fields: physical_offset, size, tags_code. An entry whose size is HOLE_BYTES or
        whose tags code is HOLE_TAGS_CODE (see `mqstore.offline.views`) has no record.
        """
        from mqstore.offline.views import QUEUE_UNIT_FIELDS

        arrays = extras.load("numpy", "a view of a queue")
        units = self.raw_queue_entries(topic, queue_id, start, count)
        entries: numpy.ndarray[Any, Any] = arrays.frombuffer(units, dtype=QUEUE_UNIT_FIELDS)
        return entries

    def raw_queue_entries(self, topic: str, queue_id: int, start: int, count: int) -> bytes:
        """`queue_units` as stored, 20 bytes each; see `mqstore.offline.views.QUEUE_UNIT_FIELDS`."""
        return self._scan.queue_entries(topic, queue_id, start, count)

    def index_files(self) -> list[tuple[str, int, int]]:
        """The index files, oldest first: name, store time of the first message in milliseconds,
        number of entries."""
        return [(row[0], row[1], row[6]) for row in self._scan.index_files()]

    def raw_index_entries(self, name: str, start: int, count: int) -> bytes:
        """Entries of an index file from number `start` (at least 1) on, as stored: 20 bytes each,
        see `mqstore.offline.views.INDEX_ENTRY_FIELDS`."""
        return self._scan.index_entries(name, start, count)

    def queue(self, topic: str, queue_id: int, start: int = 0) -> Iterator[ReceivedMessage]:
        """Messages of one queue, in the order of its consume queue.

        start: queue offset of the first message. Entries without a record are skipped: the start of
        the log was deleted, or the record is damaged. After a crash the queue may lack the newest
        messages.
        """
        more = True
        while more:
            body, _, start, more = self._scan.queue_records(topic, queue_id, start, CHUNK_BYTES)
            yield from decode_messages(body)

    def find_id(self, msg_id: str) -> list[ReceivedMessage]:
        """Messages with an id: an offset message id, or the unique id from a producer.

        A unique id is looked up in the index, and then in the whole log.
        """
        try:
            at = parse_offset_msg_id(msg_id).physical_offset
        except ValueError:
            at = -1
        message = self.message_at(at)
        if message is not None and message.offset_msg_id == msg_id.upper():
            return [message]
        topics = {queue.topic for queue in self.queues()}
        found = [m for topic in sorted(topics) for m in self.find(topic, msg_id)]
        found = [m for m in found if m.msg_id == msg_id]
        return found or [m for m in self.records() if m.msg_id == msg_id]

    def find(
        self,
        topic: str,
        key: str,
        *,
        max_count: int = 64,
        begin_ms: int = 0,
        end_ms: int = _TIME_MAX_MS,
    ) -> list[ReceivedMessage]:
        """Messages of a topic that have a key (or this unique id), newest first.

        max_count: most index entries to check. begin_ms, end_ms: store time in milliseconds since
        the epoch, both inclusive.
        """
        found = []
        begin = begin_ms - _INDEX_STEP_MS
        for offset in self._scan.lookup(topic, key, max_count, max(0, begin), end_ms):
            message = self.message_at(offset)  # the index has only hashes: compare the keys
            if message is None or message.topic != topic:
                continue
            if not begin_ms <= message.store_timestamp_ms <= end_ms:
                continue
            if key in message.keys or key == message.msg_id:
                found.append(message)
        return found

    def committed(self) -> dict[str, dict[int, int]]:
        """Committed offsets as last persisted: "topic@group" to queue to offset."""
        return state.committed_offsets(self.path)

    def stat(self) -> StoreStat:
        """Summary of the store: condition, sizes, extent, and how a broker opens it.

        Reads the head and the newest part of the log.
        """
        from mqstore.offline.stat import StoreStat, broker_conf, part_sizes

        queues = self.queues()
        reads = state.read_queue_counts(self.path)
        first, last = self.first_message(), self.last_message()
        begin = self.min_physical_offset
        topics = {queue.topic for queue in queues} | set(state.topic_names(self.path))
        return StoreStat(
            path=self.path,
            condition=self.condition(),
            layout=self.layout,
            parts=part_sizes(self.path),
            begin_physical_offset=begin,
            end_physical_offset=begin if last is None else last.commit_log_offset + last.store_size,
            queued_physical_offset=self.queued_end(),
            first_store_timestamp_ms=None if first is None else first.store_timestamp_ms,
            last_store_timestamp_ms=None if last is None else last.store_timestamp_ms,
            checkpoint=self.checkpoint(),
            topics=tuple(sorted(topics)),
            groups=tuple(state.group_names(self.path)),
            queue_count=len(queues),
            message_count=sum(queue.message_count for queue in queues),
            above_read_count=tuple(
                queue
                for queue in queues
                if queue.message_count and queue.queue_id >= reads.get(queue.topic, 1 << 31)
            ),
            unread=tuple(self.unread()),
            broker_conf=broker_conf(self.path, self.layout, topics),
        )

    def batches(
        self,
        columns: Collection[str] | None = None,
        start: int | None = None,
        wanted: Wanted | None = None,
        on_gap: Callable[[Gap], None] | None = None,
    ) -> Iterator[Any]:
        """The records as Arrow record batches, for pandas, polars, DuckDB.

        columns: names of `mqcommon.message.COLUMN_LAYOUTS`, None for all; only these are
        decoded. Other arguments are as in `walk`. Needs pyarrow.
        """
        from mqstore.arrow import arrow_schema, walk_batches

        names = list(columns or COLUMN_LAYOUTS)
        yield from walk_batches(self.columns(names, start, wanted, on_gap), arrow_schema(names))

    def columns(
        self,
        names: Collection[str],
        start: int | None = None,
        wanted: Wanted | None = None,
        on_gap: Callable[[Gap], None] | None = None,
        *,
        queue_ids: Set[int] | None = None,
        tags: Set[str] | None = None,
    ) -> AheadWalk[materialize.Rows]:
        """The records as column buffers (see `ColumnBuilder.take`), built ahead of the reader.

        Yields the number of rows and the columns, some thousands of rows at a time. queue_ids,
        tags: only these. For other arguments see `batches`.
        """
        words = self._walk_words(start, wanted, on_gap)
        return materialize.columns(*words, list(names), queue_ids, tags)

    def lines(
        self,
        body: str = "text",
        start: int | None = None,
        wanted: Wanted | None = None,
        on_gap: Callable[[Gap], None] | None = None,
    ) -> materialize.LinesWalk:
        """The records as JSON lines in bytes, rendered ahead of the reader.

        body: as in `json_lines`; other arguments are as in `walk`.
        """
        return materialize.lines(*self._walk_words(start, wanted, on_gap), body)

    def condition(self) -> Condition:
        """Whether a broker has the store open, and whether the last one stopped cleanly."""
        from mqstore.offline.report import Condition

        clean, in_use, _ = self._scan.state()
        return Condition(in_use, clean)

    def checkpoint(self) -> Checkpoint | None:
        """The last flush of each kind of file, as recorded by the broker."""
        from mqstore.offline.report import Checkpoint

        times = self._scan.state()[2]
        return None if times is None else Checkpoint(*times)

    def unread(self) -> list[tuple[str, str]]:
        """Files of a newer RocketMQ that cannot be read: path in the store, description."""
        return self._scan.unread()

    def verify(self, progress: Callable[[int], None] | None = None) -> VerifyReport:
        """Compare log, queues, extension, index, checkpoint and offsets with each other.

        progress: called from time to time with the physical offset reached. Ctrl-C stops the check.
        """
        from mqstore.offline.report import Finding, VerifyReport

        report = self._scan.verify(progress)
        return VerifyReport(
            report.records,
            report.record_bytes,
            report.queue_entries,
            report.extension_units,
            report.index_entries,
            report.offsets,
            report.log_end,
            report.finding_count,
            tuple(Finding(*finding) for finding in report.findings),
            tuple(Finding(*notice) for notice in report.notices),
        )


def open(path: str | os.PathLike[str]) -> StoreReader:
    """Read the store at a path, which may be in use by a broker.

    Raises FileNotFoundError if the directory does not exist, UnknownLayout if it has no commit log.
    """
    return StoreReader(path)

"""The read-only door to a store directory: records, queues, index, checks."""

from __future__ import annotations

import bisect
import logging
import os
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mqstore import _core
from mqstore.message import (
    COLUMN_LAYOUTS,
    ReceivedMessage,
    decode_messages,
    parse_offset_msg_id,
)
from mqstore.offline import state
from mqstore.offline.report import Chunk, Finding, Layout, QueueSummary, VerifyReport
from mqstore.offline.stat import StoreStat, take_stat
from mqstore.offline.views import (
    HOLE_BYTES,
    QUEUE_UNIT_FIELDS,
    IndexView,
    QueueView,
    index_views,
    queue_views,
)

if TYPE_CHECKING:
    import numpy

__all__ = ["StoreReader", "open"]

log = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20
"""How much of the log one read takes."""
UNITS_AT_ONCE = 10_000
"""How many queue units one read takes."""
_TIME_MAX_MS = 2**63 - 1


class StoreReader:
    """A store directory, read as it is. `open` makes one; safe from any thread."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        """Root of the store."""
        self._scan = _core.Scan(os.fspath(path))

    @property
    def layout(self) -> Layout:
        """Sizes of the store's files."""
        return Layout(*self._scan.layout())

    @property
    def min_physical_offset(self) -> int:
        """Start of the log, bytes."""
        return self._scan.min_physical_offset()

    @property
    def max_physical_offset(self) -> int:
        """End of the last log file, bytes: at or beyond the end of the last record."""
        return self._scan.max_physical_offset()

    def end_physical_offset(self) -> int:
        """End of the log now, bytes: where the last record ends and a broker would append.

        Reads the last file that has records. What follows may be damage: compare `queued_end`.
        """
        start, end = self.min_physical_offset, self.max_physical_offset
        file_bytes = self.layout.commit_log_file_bytes
        while file_bytes and end - file_bytes > start and self.message_at(end - file_bytes) is None:
            end -= file_bytes  # made ahead of the writer, still empty
        reached = max(start, end - (file_bytes or 0))
        for chunk in self.chunks(reached):
            reached = chunk.next_offset
        return reached

    def queued_end(self) -> int:
        """Where the newest record ends that a consume queue lists, bytes from the log's start.

        Beyond `end_physical_offset` it says that records are damaged or lost.
        """
        return max((at + size for at, size in self._queue_ends()), default=self.min_physical_offset)

    def _queue_ends(self) -> list[tuple[int, int]]:
        """The newest unit of each queue: physical offset and size of its record."""
        ends = []
        for queue in self.queues():
            for unit in self.queue_units(queue.topic, queue.queue_id, queue.max_offset - 1, 1):
                if unit["size"] != HOLE_BYTES:
                    ends.append((int(unit["physical_offset"]), int(unit["size"])))
        return ends

    def chunks(self, start: int | None = None, *, check_crc: bool = False) -> Iterator[Chunk]:
        """Whole records, about a mebibyte at a time.

        start: physical offset of a record; None for the first. Ends where the log ends or is
        damaged; with `check_crc` also before a body that does not match its checksum.
        """
        offset = self.min_physical_offset if start is None else start
        while True:
            chunk = Chunk(*self._scan.records(offset, CHUNK_BYTES, check_crc))
            if chunk.body:
                yield chunk
            if chunk.next_offset == offset:
                return
            offset = chunk.next_offset

    def records(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        topic: str | None = None,
        queue_id: int | None = None,
        tag: str | None = None,
        begin_ms: int = 0,
        end_ms: int = _TIME_MAX_MS,
        check_crc: bool = False,
    ) -> Iterator[ReceivedMessage]:
        """Every record of the log in the order it was written.

        start, stop: physical offsets; a record that starts at `stop` is left out. topic,
        queue_id, tag: only these. begin_ms, end_ms: store time, both included. What RocketMQ
        keeps for itself is among them: half messages, delayed ones, and those of rolled-back
        transactions.
        Where a queue lists records beyond the place at which the log becomes unreadable, that
        is logged as a warning; see `verify`.
        """
        if start is None and begin_ms > 0:
            start = self._file_of(begin_ms)
        queued_end = self.queued_end()
        reached = 0
        for chunk in self.chunks(start, check_crc=check_crc):
            for message in decode_messages(chunk.body):
                if stop is not None and message.commit_log_offset >= stop:
                    return
                if (
                    begin_ms <= message.store_timestamp_ms <= end_ms
                    and (queue_id is None or message.queue_id == queue_id)
                    and (topic is None or message.topic == topic)
                    and (tag is None or message.tags == tag)
                ):
                    yield message
            reached = chunk.next_offset
        if reached and reached < min(queued_end, stop or queued_end):
            log.warning(
                "%s: the log is unreadable at %d, but queues list records up to %d; to see more: "
                "mqstore verify %s", self.path, reached, queued_end, self.path,
            )  # fmt: skip

    def _file_of(self, time_ms: int) -> int | None:
        """Where the log file begins in which records of a store time begin, None: the first."""
        file_bytes = self.layout.commit_log_file_bytes
        if not file_bytes:
            return None
        starts = range(self.min_physical_offset, self.max_physical_offset, file_bytes)

        def first_ms(start: int) -> int:
            message = self.message_at(start)
            return _TIME_MAX_MS if message is None else message.store_timestamp_ms

        after = bisect.bisect_left(starts, time_ms, key=first_ms)
        return starts[max(0, after - 1)] if starts else None

    def first_message(self) -> ReceivedMessage | None:
        """The oldest record of the log, or None."""
        return next((m for c in self.chunks() for m in decode_messages(c.body)), None)

    def last_message(self) -> ReceivedMessage | None:
        """The newest record that can be reached: what queues list, and what follows it."""
        ends = sorted((at for at, _ in self._queue_ends()), reverse=True)
        newest = next((m for m in map(self.message_at, ends) if m is not None), None)
        start = None if newest is None else newest.commit_log_offset
        for chunk in self.chunks(start):
            newest = self.message_at(chunk.offsets[-1])
        return newest

    def message_at(self, physical_offset: int) -> ReceivedMessage | None:
        """The record that starts at a physical offset, or None if none does."""
        record = self._scan.record_at(physical_offset)
        return None if record is None else decode_messages(record)[0]

    def queues(self) -> list[QueueSummary]:
        """Every consume queue, by topic and queue id."""
        return sorted(QueueSummary(*row) for row in self._scan.queues())

    def queue_views(self, topic: str, queue_id: int) -> Iterator[QueueView]:
        """The files of a queue in order, as structured numpy arrays that lie on the files.

        Nothing is copied. Units whose records were deleted are among them: compare
        `QueueSummary.min_offset`.
        """
        return queue_views(self.path / "consumequeue" / topic / str(queue_id))

    def index_views(self) -> Iterator[IndexView]:
        """The index files in order: header, slots and entries, as numpy arrays on the files."""
        return index_views(self.path, self.layout)

    def queue_units(
        self, topic: str, queue_id: int, start: int = 0, count: int = UNITS_AT_ONCE
    ) -> numpy.ndarray[Any, Any]:
        """Units of a consume queue from a queue offset on, as a structured numpy array.

        Fields: physical_offset, size, tags_code. A unit whose size is 0x7FFFFFFF fills a gap.
        """
        import numpy

        units = self._scan.queue_entries(topic, queue_id, start, count)
        return numpy.frombuffer(units, dtype=QUEUE_UNIT_FIELDS)

    def queue(self, topic: str, queue_id: int, start: int = 0) -> Iterator[ReceivedMessage]:
        """Messages of one queue, in order, as its consume queue lists them.

        start: queue offset of the first. Units without a record are skipped: the log's head
        was deleted, or the record is damaged. A queue behind a crashed log lacks the newest.
        """
        while True:
            units = self.queue_units(topic, queue_id, start)
            for unit in units:
                if unit["size"] == HOLE_BYTES:
                    continue
                message = self.message_at(int(unit["physical_offset"]))
                if message is not None:
                    yield message
            if len(units) < UNITS_AT_ONCE:
                return
            start += len(units)

    def find_id(self, msg_id: str) -> list[ReceivedMessage]:
        """Messages of an id: an offset message id, or the unique id that a producer gave.

        A unique id is looked up in the index, and where that has no answer in the whole log.
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
        """Messages of a topic that carry a key (or have it as unique id), newest first.

        begin_ms, end_ms: store time, milliseconds since the epoch.
        """
        found = []
        for offset in self._scan.lookup(topic, key, max_count, begin_ms, end_ms):
            message = self.message_at(offset)  # the index knows hashes only: look at the words
            if message is None or message.topic != topic:
                continue
            if key in (message.keys or "").split(" ") or key == message.msg_id:
                found.append(message)
        return found

    def committed(self) -> dict[str, dict[int, int]]:
        """Committed offsets as last persisted: "topic@group" to queue to offset."""
        return state.committed_offsets(self.path)

    def stat(self) -> StoreStat:
        """The store at a glance: condition, sizes, extent, and how a broker opens it."""
        return take_stat(self)

    def batches(
        self,
        columns: Collection[str] | None = None,
        start: int | None = None,
        stop: int | None = None,
        *,
        topic: str | None = None,
        queue_ids: Collection[int] | None = None,
        tags: Collection[str] | None = None,
    ) -> Iterator[Any]:
        """The records as Arrow record batches, for pandas, polars, DuckDB.

        columns: names of `mqstore.message.COLUMN_LAYOUTS`, None for all; only these are
        decoded. start, stop: physical offsets of records. Needs pyarrow. Raises StoreDamaged
        after the last batch when the log becomes unreadable before `stop`.
        """
        from mqstore.arrow import arrow_schema, store_batches

        schema = arrow_schema(columns or [*COLUMN_LAYOUTS])
        begin = self.min_physical_offset if start is None else start
        end = self.end_physical_offset() if stop is None else stop
        return store_batches(self, schema, begin, end, topic=topic, queue_ids=queue_ids, tags=tags)

    def verify(self, progress: Callable[[int], None] | None = None) -> VerifyReport:
        """Check every record, queue unit and index entry against each other.

        progress: called now and then with the physical offset reached. Ctrl-C stops the check.
        """
        report = self._scan.verify(progress)
        return VerifyReport(
            report.records,
            report.record_bytes,
            report.queue_entries,
            report.index_entries,
            report.finding_count,
            tuple(Finding(*finding) for finding in report.findings),
        )


def open(path: str | os.PathLike[str]) -> StoreReader:
    """Read the store at a path, which may be in use by a broker.

    Raises FileNotFoundError when there is no such directory, UnknownLayout when it holds no
    commit log.
    """
    return StoreReader(path)

"""Reading a store directory that may be live or dead, ours or Java's, without touching it.

No lock, no recovery, nothing created: a broker may run on the directory meanwhile.

    reader = mqstore.open("/var/lib/rocketmq/store")
    for message in reader.records(topic="TopicTest"):
        print(message.msg_id, message.body)
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from mqstore import _core
from mqstore.message import ReceivedMessage, decode_messages

if TYPE_CHECKING:
    import numpy

__all__ = ["Chunk", "Finding", "Layout", "QueueSummary", "StoreReader", "VerifyReport", "open"]

log = logging.getLogger(__name__)

CHUNK_BYTES = 1 << 20
"""How much of the log one read takes."""
UNITS_AT_ONCE = 10_000
"""How many queue units one read takes."""
QUEUE_UNIT_FIELDS = [("physical_offset", ">i8"), ("size", ">i4"), ("tags_code", ">i8")]
"""A consume-queue unit as numpy sees it: 20 bytes, big-endian."""
_HOLE_BYTES = 0x7FFFFFFF  # the size of a unit that only fills a gap
_TIME_MAX_MS = 2**63 - 1


class Chunk(NamedTuple):
    """A stretch of the log."""

    body: bytes
    """Whole records one after another."""
    offsets: list[int]
    """Where each starts, bytes from the start of the log."""
    next_offset: int
    """Where the next stretch begins."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of a store's files as found on disk; None where it has no such file."""

    commit_log_file_bytes: int | None
    consume_queue_file_bytes: int | None
    index_slots: int | None
    index_entries: int | None


@dataclass(frozen=True, slots=True, order=True)
class QueueSummary:
    """A consume queue on disk."""

    topic: str
    queue_id: int
    min_offset: int
    """First queue offset whose record is in the log."""
    max_offset: int
    """One past the last queue offset."""

    @property
    def message_count(self) -> int:
        """Messages that can be read."""
        return self.max_offset - self.min_offset


@dataclass(frozen=True, slots=True)
class Finding:
    """Something wrong in a store."""

    kind: str
    """A stable word: record, crc, physical_offset, queue_entry, queue_missing, index_entry, ..."""
    place: str
    """File or queue it is in."""
    offset: int
    """Physical offset, or queue offset for findings in queues; -1 when it has none."""
    what: str
    """What was found and what was expected."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """What a check of a store counted."""

    records: int
    """Good records."""
    record_bytes: int
    """Their bytes."""
    queue_entries: int
    """Queue units looked at."""
    index_entries: int
    """Index entries looked at."""
    finding_count: int
    """Findings in all; `findings` keeps at most the first thousand."""
    findings: tuple[Finding, ...]

    @property
    def damaged(self) -> bool:
        """Whether anything is wrong."""
        return self.finding_count > 0


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
        end = self.min_physical_offset
        for queue in self.queues():
            for unit in self.queue_units(queue.topic, queue.queue_id, queue.max_offset - 1, 1):
                if unit["size"] != _HOLE_BYTES:
                    end = max(end, int(unit["physical_offset"]) + int(unit["size"]))
        return end

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
        check_crc: bool = False,
    ) -> Iterator[ReceivedMessage]:
        """Every record of the log in the order it was written.

        start, stop: physical offsets; a record that starts at `stop` is left out. topic,
        queue_id: only these. What RocketMQ keeps for itself is among them: half messages,
        delayed ones, and those of rolled-back transactions.
        Where a queue lists records beyond the place at which the log becomes unreadable, that
        is logged as a warning; see `verify`.
        """
        queued_end = self.queued_end()
        reached = 0
        for chunk in self.chunks(start, check_crc=check_crc):
            for message in decode_messages(chunk.body):
                if stop is not None and message.commit_log_offset >= stop:
                    return
                if queue_id is not None and message.queue_id != queue_id:
                    continue
                if topic is None or message.topic == topic:
                    yield message
            reached = chunk.next_offset
        if reached and reached < min(queued_end, stop or queued_end):
            log.warning(
                "%s: the log is unreadable at %d, but queues list records up to %d; to see more: "
                "mqstore verify %s", self.path, reached, queued_end, self.path,
            )  # fmt: skip

    def message_at(self, physical_offset: int) -> ReceivedMessage | None:
        """The record that starts at a physical offset, or None if none does."""
        record = self._scan.record_at(physical_offset)
        return None if record is None else decode_messages(record)[0]

    def queues(self) -> list[QueueSummary]:
        """Every consume queue, by topic and queue id."""
        return sorted(QueueSummary(*row) for row in self._scan.queues())

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
                if unit["size"] == _HOLE_BYTES:
                    continue
                message = self.message_at(int(unit["physical_offset"]))
                if message is not None:
                    yield message
            if len(units) < UNITS_AT_ONCE:
                return
            start += len(units)

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
        from mqstore.fastjson import loads

        for name in ("consumerOffset.json", "consumerOffset.json.bak"):
            file = self.path / "config" / name
            if file.is_file() and (text := file.read_bytes()):
                table = cast(dict[str, dict[str, dict[str, int]]], loads(text))
                rows = table.get("offsetTable", {}).items()
                return {name: {int(q): at for q, at in row.items()} for name, row in rows}
        return {}

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

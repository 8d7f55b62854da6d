"""What the offline tools say about a store: plain values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = ["Chunk", "Finding", "Layout", "QueueSummary", "VerifyReport"]


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

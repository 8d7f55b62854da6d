"""The reports of the offline tools."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

__all__ = [
    "Checkpoint",
    "Condition",
    "Finding",
    "GroupOutlook",
    "Layout",
    "QueueSummary",
    "RepairReport",
    "VerifyReport",
]


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes of a store's files as found on disk; None if there is no such file."""

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
    """One finding in a store."""

    kind: str
    """A stable word: record, crc, physical_offset, queue_entry, queue_missing, queue_offset,
    index_entry, index_layout, state, ...; docs/offline.md lists them all."""
    place: str
    """File or queue of the finding."""
    offset: int
    """Physical offset, or queue offset for findings in queues; -1 for none."""
    what: str
    """The value that was found and the value that was expected."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a check of a store."""

    records: int
    """Number of good records."""
    record_bytes: int
    """Bytes of the good records."""
    queue_entries: int
    """Number of checked queue entries."""
    extension_units: int
    """Number of checked units of consume-queue extensions."""
    index_entries: int
    """Number of checked index entries."""
    offsets: int
    """Number of checked committed offsets and delay offsets."""
    log_end: int
    """Physical offset of the last good record's end."""
    finding_count: int
    """Number of findings; `findings` has at most the first thousand."""
    findings: tuple[Finding, ...]
    """Findings that are damage."""
    notices: tuple[Finding, ...]
    """Findings that are not damage: the next open repairs them, or an operator should check
    them."""

    @property
    def damaged(self) -> bool:
        """Whether there is damage."""
        return self.finding_count > 0


class GroupOutlook(NamedTuple):
    """The position of a consumer group in one queue after the repair."""

    group: str
    topic: str
    queue_id: int
    committed_before: int
    """Committed offset as found."""
    committed: int
    """The offset from which the group continues."""
    remaining: int
    """Messages that it will receive from there."""
    replayed: int
    """Of these, messages that it had consumed before."""
    skipped: int
    """Messages that it will never receive: damaged, truncated or expired."""


@dataclass(frozen=True, slots=True)
class RepairReport:
    """The result of `repair` or `rebuild`."""

    root: str
    """The directory of the result."""
    log_start: int
    """Physical offset of the log's first byte."""
    log_end: int
    """Physical offset at which the next message will be appended."""
    records: int
    """Number of kept records."""
    repaired: tuple[tuple[int, int, str], ...]
    """Damaged ranges [from, to) that were overwritten, and the file that keeps their bytes."""
    cut: tuple[int, int] | None
    """Range [from, to) at the log's end that had no usable record and was truncated."""
    queues: int
    """Number of written consume queues."""
    queue_entries: int
    """Number of entries of these queues."""
    kept_queues: tuple[tuple[str, int], ...]
    """Queues whose messages have all expired; they are kept so that their offsets continue."""
    index_entries: int
    """Number of written index entries."""
    restored: tuple[str, ...]
    """State files that were replaced by their .bak."""
    groups: tuple[GroupOutlook, ...]
    """What each group will replay or skip in each queue."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Store times up to which the files were flushed, in milliseconds since the epoch; 0 for
    never."""

    log_ms: int
    """The commit log."""
    queues_ms: int
    """The consume queues."""
    index_ms: int
    """The index."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Condition of a store."""

    in_use: bool
    """Whether a broker holds the lock."""
    clean: bool
    """Whether the last broker shut down cleanly, so that there is no file `abort`."""

    @property
    def word(self) -> str:
        """One of "in use", "clean", "crashed"."""
        if self.in_use:
            return "in use"
        return "clean" if self.clean else "crashed"

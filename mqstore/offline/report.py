"""The reports of the offline tools, as plain values."""

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
    index_entry, index_layout, state, ...; docs/offline.md has them all."""
    place: str
    """File or queue it is in."""
    offset: int
    """Physical offset, or queue offset for findings in queues; -1 when it has none."""
    what: str
    """The value that was found and the value that was expected."""


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The result of a check of a store."""

    records: int
    """Good records."""
    record_bytes: int
    """Their bytes."""
    queue_entries: int
    """Queue units looked at."""
    extension_units: int
    """Units of consume-queue extensions looked at."""
    index_entries: int
    """Index entries looked at."""
    offsets: int
    """Committed and delay offsets looked at."""
    log_end: int
    """Where the last good record ends, bytes."""
    finding_count: int
    """Findings in all; `findings` keeps at most the first thousand."""
    findings: tuple[Finding, ...]
    """Damage."""
    notices: tuple[Finding, ...]
    """Findings that are no damage: the next open repairs them, or an operator should look."""

    @property
    def damaged(self) -> bool:
        """Whether anything is wrong."""
        return self.finding_count > 0


class GroupOutlook(NamedTuple):
    """Where a consumer group continues in one queue."""

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
    """What `repair` or `rebuild` did."""

    root: str
    """Where the result is."""
    log_start: int
    """First byte of the log."""
    log_end: int
    """Where the next message will be appended."""
    records: int
    """Records kept."""
    healed: tuple[tuple[int, int, str], ...]
    """Damaged ranges [from, to) that were overwritten, and the file that keeps their bytes."""
    cut: tuple[int, int] | None
    """[from, to) at the log's end that held no usable record and is empty now."""
    queues: int
    """Consume queues written."""
    queue_entries: int
    """Their units."""
    kept_queues: tuple[tuple[str, int], ...]
    """Queues whose messages have all expired; they are kept so that their offsets continue."""
    index_entries: int
    """Index entries written."""
    restored: tuple[str, ...]
    """State files taken from their .bak."""
    groups: tuple[GroupOutlook, ...]
    """What each group will replay or skip in each queue."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Store times up to which the files were flushed, milliseconds since the epoch; 0: never."""

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
    """Whether the last broker stopped cleanly: then there is no file `abort`."""

    @property
    def word(self) -> str:
        """One of "in use", "clean", "crashed"."""
        if self.in_use:
            return "in use"
        return "clean" if self.clean else "crashed"

"""Repairs a store: rebuilds queues and index from the log, and repairs a damaged log."""

from __future__ import annotations

import os
from collections.abc import Callable

from mqcommon import _core
from mqstore.offline.report import GroupOutlook, RepairReport

__all__ = ["cut", "rebuild", "repair"]

Path = str | os.PathLike[str]
Progress = Callable[[str, int, int], None]


def rebuild(
    path: Path,
    to: Path | None = None,
    *,
    in_place: bool = False,
    progress: Progress | None = None,
    delay_levels: str | None = None,
    index_slots: int | None = None,
    index_entries: int | None = None,
) -> RepairReport:
    """Rebuild consume queues, index and checkpoint from the log, which is not changed.

    to: a new or empty directory for the complete result; `path` does not change. in_place: change
    `path` itself, under its lock. One of the two must be given. progress: called with a step
    ("copy", "check", "build"), bytes done and bytes in total.
    delay_levels: messageDelayLevel, if it is not RocketMQ's default. index_slots, index_entries:
    maxHashSlotNum and maxIndexNum; needed only if the index files do not show them.
    Raises StoreLocked if a broker runs on `path` and in_place is set, StoreDamaged for a damaged
    log (see `repair`), FileExistsError if `to` is not empty.
    """
    _check_target(to, in_place)
    found = _core.rebuild(
        path, to, progress, repairs=False, delay_levels=delay_levels,
        index_slots=index_slots, index_entries=index_entries,
    )  # fmt: skip
    return _report(found)


def repair(
    path: Path,
    to: Path | None = None,
    *,
    in_place: bool = False,
    progress: Progress | None = None,
    delay_levels: str | None = None,
    index_slots: int | None = None,
    index_entries: int | None = None,
) -> RepairReport:
    """Repair a damaged log, then rebuild like `rebuild`; the arguments are the same.

    A damaged range before good records is saved to mqstack/quarantine and overwritten with
    records that no consumer sees; a torn tail is truncated. Unreadable state files are replaced by
    their .bak. Committed offsets beyond a queue's end are set back to the end.
    """
    _check_target(to, in_place)
    found = _core.rebuild(
        path, to, progress, repairs=True, delay_levels=delay_levels,
        index_slots=index_slots, index_entries=index_entries,
    )  # fmt: skip
    return _report(found)


def cut(
    path: Path,
    offset: int,
    *,
    progress: Progress | None = None,
    delay_levels: str | None = None,
    index_slots: int | None = None,
    index_entries: int | None = None,
) -> tuple[RepairReport, tuple[int, int]]:
    """End the log with the last record that ends at `offset` or before it, and rebuild in place.

    For a slave whose log differs from its master's from `offset` on. The cut bytes are kept in
    mqstack/quarantine, in a file named after the first and the last offset. The other arguments
    are those of `rebuild`. Returns the report of the rebuild, and the range that was cut.
    Raises SettingError for an offset outside the log, and the errors of `rebuild`.
    """
    removed = _core.cut_log(path, offset)
    report = rebuild(
        path, in_place=True, progress=progress, delay_levels=delay_levels,
        index_slots=index_slots, index_entries=index_entries,
    )  # fmt: skip
    return report, removed


def _check_target(to: Path | None, in_place: bool) -> None:
    if (to is None) != in_place:
        raise ValueError("give either to=DIRECTORY for a new store, or in_place=True")


def _report(found: _core.RepairReport) -> RepairReport:
    return RepairReport(
        root=found.root,
        log_start=found.log_start,
        log_end=found.log_end,
        records=found.records,
        repaired=tuple(found.repaired),
        cut=found.cut,
        queues=found.queues,
        queue_entries=found.queue_entries,
        kept_queues=tuple(found.kept_queues),
        index_entries=found.index_entries,
        restored=tuple(found.restored),
        groups=tuple(GroupOutlook(*row) for row in found.groups),
    )

"""compact: merges the small files of each folder of a lake."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any

import msgspec

from mqpipeline.jobs import frames
from mqpipeline.jobs.session import open_session
from mqpipeline.lake import layout
from mqpipeline.lake.storage import Lake
from mqpipeline.lake.transaction import Observer, opened
from mqpipeline.sinks.merge_sink import Merge, merge

__all__ = ["CompactReport", "compact", "plan_compact"]

JOB = "compact"
TARGET_BYTES = 256 << 20
"""Default size of a merged file."""
ROUND_MERGES = 64
"""Number of merges in one commit; after a kill, the next run repeats the uncommitted ones."""


class CompactReport(msgspec.Struct, kw_only=True, rename="camel"):
    """The result of a run. before, after: numbers for the merged files only."""

    folders: int = 0
    files_before: int = 0
    files_after: int = 0
    bytes_before: int = 0
    bytes_after: int = 0
    messages: int = 0


class FolderPlan(msgspec.Struct, frozen=True, rename="camel"):
    """Files of one folder that are merged into one."""

    folder: str
    files: tuple[str, ...]
    bytes: int


def plan_compact(lake: str, *, target_bytes: int = TARGET_BYTES) -> list[FolderPlan]:
    """What `compact` would merge; writes nothing and does not start Spark."""
    opened_lake = Lake(lake)
    frames.lake_topics(opened_lake)
    return list(_plans(opened_lake, target_bytes))


def compact(
    lake: str,
    *,
    target_bytes: int = TARGET_BYTES,
    spark: Callable[[], Any] = open_session,
    on_step: Observer = lambda step: None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> CompactReport:
    """Merge the small files of a lake. No other job may run on the lake.

    Rows stay in the order of queue and offset. If a run is killed while it replaces files, the next
    run completes it; until then other jobs refuse the lake. on_progress: called with the number of
    merged files and of all files. Raises BusyError while a job works on the lake.
    """
    opened_lake = Lake(lake)
    report = CompactReport()
    folders = set()
    with opened(opened_lake, JOB, JOB, {}, on_step, alone=True) as run:
        frames.lake_topics(opened_lake)
        plans = list(_plans(opened_lake, target_bytes))
        total = sum(len(plan.files) for plan in plans)
        for at in range(0, len(plans), ROUND_MERGES):
            part = plans[at : at + ROUND_MERGES]
            session = spark()
            run.begin({plan.folder: (0, len(plan.files)) for plan in part})
            merges = [Merge(_target(plan), plan.files) for plan in part]
            merged = merge(session, opened_lake, run.staging, merges)
            deletes = [path for plan in part for path in plan.files]
            moves = [(file.staged, file.target) for file in merged]
            rows = sum(file.rows for file in merged)
            run.commit(moves, {}, rows, deletes)
            report.messages += rows
            report.files_before += len(deletes)
            report.files_after += len(moves)
            report.bytes_before += sum(plan.bytes for plan in part)
            report.bytes_after += sum(file.bytes for file in merged)
            folders |= {plan.folder for plan in part}
            on_progress(report.files_before, total)
    report.folders = len(folders)
    return report


def _plans(lake: Lake, target_bytes: int) -> Iterator[FolderPlan]:
    """Groups of adjacent small files of each folder, in the order of source and offset."""
    sizes = dict(lake.walk(".parquet"))
    files = [file for path in sizes if (file := layout.parse_path(path)) is not None]
    files.sort(key=lambda file: (file.folder, file.source, file.first))
    for folder, of_folder in groupby(files, key=lambda file: file.folder):
        group: list[str] = []
        size = 0
        for file in of_folder:
            if group and size + sizes[file.path] > target_bytes:
                if len(group) > 1:
                    yield FolderPlan(folder, tuple(group), size)
                group, size = [], 0
            group.append(file.path)
            size += sizes[file.path]
        if len(group) > 1:
            yield FolderPlan(folder, tuple(group), size)


def _target(plan: FolderPlan) -> str:
    """The path of the merged file. Its name has the source only if all files have the same
    source."""
    files = [file for path in plan.files if (file := layout.parse_path(path)) is not None]
    sources = {file.source for file in files}
    source = sources.pop() if len(sources) == 1 else f"merged.{uuid.uuid4().hex[:12]}"
    first, last = min(file.first for file in files), max(file.last for file in files)
    return f"{plan.folder}/{layout.file_name(source, first, last)}"

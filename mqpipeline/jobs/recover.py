"""recover: copies messages from the files of store directories to a lake, without a broker."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from mqpipeline.errors import UsageError
from mqpipeline.jobs.session import open_session
from mqpipeline.lake.lake_writer import WrittenFile
from mqpipeline.lake.layout import Interval
from mqpipeline.lake.storage import Lake
from mqpipeline.lake.transaction import Observer, Transaction, check, opened
from mqpipeline.sinks import lake_sink
from mqstore.offline import StoreReader
from mqstore.offline import open as open_store
from mqstore.offline.walk import Gap, Wanted

__all__ = ["RecoverReport", "StorePiece", "plan_recover", "recover"]

JOB = "recover"
ROUND_BYTES = 8 << 30
"""Bytes of a store's log that one round reads; after a kill, the last round is repeated."""
TASK_BYTES = 256 << 20
TASKS_MIN = 4


class StorePiece(msgspec.Struct, frozen=True):
    """A part of a store's log: the records that start in [first, end)."""

    store: str
    first: int
    end: int


class StoreReport(msgspec.Struct, kw_only=True, rename="camel"):
    """The result for one store."""

    store: str
    messages: int = 0
    bytes: int = 0
    files: int = 0
    topics: int = 0
    damaged_places: int = 0
    damaged_bytes: int = 0
    """Bytes of skipped damage; counted only with fail_on_data_loss=False."""


class RecoverReport(msgspec.Struct, kw_only=True):
    """The result of a run, by store."""

    stores: dict[str, StoreReport] = {}
    rounds: int = 0

    @property
    def damaged(self) -> bool:
        """Whether damage was skipped."""
        return any(store.damaged_places for store in self.stores.values())


def plan_recover(
    lake: str,
    stores: Sequence[str],
    *,
    name: str = JOB,
    by: Interval = "hour",
    topic: str | None = None,
    round_bytes: int = ROUND_BYTES,
) -> list[StorePiece]:
    """What `recover` would read in each round; writes nothing and does not start Spark."""
    state = check(Lake(lake), name, JOB, _settings(by, topic))
    return [piece for path in _paths(stores) for piece in _pieces(path, state.done, round_bytes)]


def recover(
    lake: str,
    stores: Sequence[str],
    *,
    name: str = JOB,
    by: Interval = "hour",
    topic: str | None = None,
    round_bytes: int = ROUND_BYTES,
    fail_on_data_loss: bool = True,
    spark: Callable[[], Any] = open_session,
    on_step: Observer = lambda step: None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> RecoverReport:
    """Write the records of stores to a lake; the next run continues where this one ended.

    stores: store directories of brokers, running or not, ours or Java's. topic: recover only this
    topic. fail_on_data_loss: True fails on damage, False skips and counts it. on_progress: called
    with the bytes read and the bytes to read. Raises StoreDamaged and StoreError of mqstore, and
    PipelineError.
    """
    paths = _paths(stores)
    report = RecoverReport(stores={path: StoreReport(store=path) for path in paths})
    seen: dict[str, set[str]] = {path: set() for path in paths}
    with opened(Lake(lake), name, JOB, _settings(by, topic), on_step) as run:
        pieces = [piece for path in paths for piece in _pieces(path, run.state.done, round_bytes)]
        total, read = sum(piece.end - piece.first for piece in pieces), 0
        for piece in pieces:
            files = _round(run, piece, by, topic, fail_on_data_loss, spark())
            of_store = report.stores[piece.store]
            of_store.files += len(files)
            of_store.messages += sum(file.rows for file in files)
            of_store.bytes += sum(file.bytes for file in files)
            seen[piece.store] |= {file.topic for file in files}
            of_store.topics = len(seen[piece.store])
            if not fail_on_data_loss:
                _count_damage(of_store, piece)
            report.rounds += 1
            read += piece.end - piece.first
            on_progress(read, total)
    return report


def _settings(by: Interval, topic: str | None) -> dict[str, str]:
    return {"by": by, "topic": topic or "*"}


def _paths(stores: Sequence[str]) -> list[str]:
    paths = list(dict.fromkeys(str(Path(store).resolve()) for store in stores))
    for path in paths:
        if not (Path(path) / "commitlog").is_dir():
            raise UsageError(f"{path} is not a store directory: it has no folder commitlog")
    return paths


def _pieces(path: str, done: dict[str, int], round_bytes: int) -> Iterator[StorePiece]:
    """Split the log into pieces of whole files, of about `round_bytes`; each starts with a
    record."""
    store = open_store(path)
    end = store.end_physical_offset(store.queued_end())
    file_bytes = store.layout.commit_log_file_bytes or 1
    first = _next_record(store, done[path], end) if path in done else store.min_physical_offset
    while first < end:
        stop = first - first % file_bytes + file_bytes
        while stop < end and (stop - first < round_bytes or store.message_at(stop) is None):
            stop += file_bytes
        yield StorePiece(path, first, min(stop, end))
        first = min(stop, end)


def _next_record(store: StoreReader, done: int, end: int) -> int:
    """Offset of the first record at or after `done`; `end` if there is none.

    If the broker has ended the log file since then, the next record is in the next file.
    """
    at = max(done, store.min_physical_offset)
    for chunk in store.chunks(at):
        return chunk.offsets[0]
    file_bytes = store.layout.commit_log_file_bytes or 1
    following = at - at % file_bytes + file_bytes
    while following < end and store.message_at(following) is None:
        following += file_bytes
    return min(following, end)


def _round(
    run: Transaction,
    piece: StorePiece,
    by: Interval,
    topic: str | None,
    fail_on_data_loss: bool,
    session: Any,
) -> list[WrittenFile]:
    run.begin({piece.store: (piece.first, piece.end)})
    tasks = max(TASKS_MIN, (piece.end - piece.first) // TASK_BYTES)
    options = {
        "endingOffset": str(piece.end),
        "minPartitions": str(tasks),
        "failOnDataLoss": str(fail_on_data_loss).lower(),
    }
    if piece.first > open_store(piece.store).min_physical_offset:
        options["startingOffset"] = str(piece.first)
    if topic is not None:
        options["topic"] = topic
    frame = session.read.format("rocketmq-store").options(**options).load(piece.store)
    staged = lake_sink.write(frame, run.lake, run.staging, by, piece.store)
    files = [file for _, file in staged]
    moves = [(where, file.path) for where, file in staged]
    run.commit(moves, {piece.store: piece.end}, sum(file.rows for file in files))
    return files


def _count_damage(report: StoreReport, piece: StorePiece) -> None:
    """Read the piece again to count its damage, because Spark's workers only log it."""
    gaps: list[Gap] = []
    wanted = Wanted(stop=piece.end, check_crc=True)
    store = open_store(piece.store)
    for _ in store.columns(["commit_log_offset"], piece.first, wanted, gaps.append):
        pass
    if gaps and gaps[-1].end > piece.end:  # the rest of the gap belongs to the next piece
        gaps[-1] = Gap(gaps[-1].start, piece.end)
    report.damaged_places += len(gaps)
    report.damaged_bytes += sum(gap.end - gap.start for gap in gaps)

"""replay: sends messages of a lake again, at full speed, at a rate, or at their original speed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import msgspec
import pyarrow.parquet as pq

from mqpipeline.errors import UsageError
from mqpipeline.jobs import frames
from mqpipeline.jobs.session import open_session
from mqpipeline.jobs.topics import parse_options
from mqpipeline.lake import layout
from mqpipeline.lake.layout import LakeFile
from mqpipeline.lake.storage import Lake
from mqpipeline.lake.transaction import Observer, check, opened
from mqpipeline.sinks import paced_sink
from mqpipeline.sinks.paced_sink import Pace
from mqpipeline.spark.topics.cluster import Cluster

__all__ = ["ORIGIN", "ReplayPlan", "ReplayReport", "plan_replay", "replay"]

JOB = "replay"
ORIGIN = "mqpipelineOrigin"
"""Property of a replayed message: "broker|topic|queue|offset" of the original message."""
UNIT_BYTES = 512 << 20
"""Bytes of files that one Spark job sends, about; after a kill, the last job is repeated."""
SLICE_TASKS = 8


class ReplayReport(msgspec.Struct, kw_only=True, rename="camel"):
    """The result of a run. units: number of Spark jobs, each of which sent some files."""

    topic: str
    messages: int = 0
    files: int = 0
    units: int = 0


class ReplayPlan(msgspec.Struct, frozen=True):
    """The files that a run would read, by unit, without files that were sent before."""

    units: list[list[LakeFile]]


class Selection(msgspec.Struct, frozen=True):
    """A selection of messages. start_ms, end_ms: range of the store time, without the end."""

    topics: tuple[str, ...] = ()
    start_ms: int | None = None
    end_ms: int | None = None
    tags: tuple[str, ...] = ()

    def settings(self, target: str) -> dict[str, str]:
        """The settings that must not change between runs of the job."""
        return {
            "target": target,
            "topics": ",".join(self.topics),
            "from": str(self.start_ms),
            "to": str(self.end_ms),
            "tags": " || ".join(self.tags),
        }

    def has(self, file: LakeFile) -> bool:
        """Whether a file can have selected messages, judged by its topic and its hour or day."""
        if self.topics and file.topic not in self.topics:
            return False
        first_ms, last_ms = _slot_ms(file.folder)
        return (self.end_ms is None or first_ms < self.end_ms) and (
            self.start_ms is None or last_ms > self.start_ms
        )


def plan_replay(
    lake: str,
    target: str,
    chosen: Selection,
    *,
    name: str = JOB,
    in_order_of_time: bool = False,
) -> ReplayPlan:
    """What `replay` would read; sends nothing and does not start Spark."""
    opened_lake = Lake(lake)
    _check(opened_lake, chosen)
    done = check(opened_lake, name, JOB, chosen.settings(target)).done
    return ReplayPlan(list(_units(opened_lake, chosen, done, in_order_of_time)))


def replay(
    lake: str,
    target: str,
    chosen: Selection | None = None,
    options: Mapping[str, str] | None = None,
    *,
    namesrv: str | None = None,
    name: str = JOB,
    rate: float = 0.0,
    speed: float = 0.0,
    spark: Callable[[], Any] = open_session,
    on_step: Observer = lambda step: None,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
) -> ReplayReport:
    """Send messages of a lake to the topic `target`.

    Each message gets the property `ORIGIN`. After a kill, the next run repeats the messages of the
    last files; consumers can recognise these by the property. rate: messages per second. speed:
    multiple of the original speed, by store timestamp. on_progress: called with the number of sent
    files and of all files. Raises mqclient's errors and PipelineError.
    """
    if rate and speed:
        raise UsageError("give a rate or a speed, not both")
    chosen = chosen or Selection()
    opened_lake = Lake(lake)
    _check(opened_lake, chosen)
    with Cluster(parse_options(namesrv, options or {})) as cluster:
        cluster.queues(target)  # raises an error if the topic does not exist
    to = {**(options or {}), **({"namesrv": namesrv} if namesrv else {}), "topic": target}
    report = ReplayReport(topic=target)
    with opened(opened_lake, name, JOB, chosen.settings(target), on_step) as run:
        units = list(_units(opened_lake, chosen, run.state.done, bool(speed)))
        first_us = _first_us(opened_lake, units, chosen.start_ms) if speed else 0
        pace = Pace(rate, speed, started_s=time.time(), first_us=first_us)
        for files in units:
            session = spark()
            run.begin({file.path: (file.first, file.last + 1) for file in files})
            frame = _rows(session, opened_lake, files, chosen, pace)
            listing = f"{run.staging}/sent.json"
            sent = paced_sink.send(frame, opened_lake, listing, pace, to)
            run.commit([], {file.path: 1 for file in files}, sent)
            report.messages += sent
            report.files += len(files)
            report.units += 1
            on_progress(report.files, sum(map(len, units)))
    return report


def _check(lake: Lake, chosen: Selection) -> None:
    known = frames.lake_topics(lake)
    missing = [topic for topic in chosen.topics if topic not in known]
    if missing:
        has = ", ".join(known)
        raise UsageError(f"lake {lake.where} has no topic {missing[0]!r}; it has {has}")


def _slot_ms(folder: str) -> tuple[int, int]:
    """Start and end of a folder's hour or day, in milliseconds since the epoch."""
    parts = dict(part.split("=", 1) for part in folder.split("/"))
    day = datetime.fromisoformat(parts["day"]).replace(tzinfo=UTC)
    first = day.replace(hour=int(parts.get("hour", 0)))
    length = 3_600_000 if "hour" in parts else 86_400_000
    first_ms = int(first.timestamp() * 1000)
    return first_ms, first_ms + length


def _first_us(lake: Lake, units: Sequence[Sequence[LakeFile]], start_ms: int | None) -> int:
    """Store time of the first message in microseconds, from the statistics of the first files."""
    stored = []
    for file in units[0] if units else ():
        metadata = pq.read_metadata(lake.full(file.path), filesystem=lake.fs)
        column = metadata.schema.names.index("store_timestamp")
        for group in range(metadata.num_row_groups):
            stored.append(metadata.row_group(group).column(column).statistics.min)
    first_us = min((round(at.timestamp() * 1_000_000) for at in stored), default=0)
    return max(first_us, (start_ms or 0) * 1000)


def _units(
    lake: Lake, chosen: Selection, done: Mapping[str, int], in_order_of_time: bool
) -> Iterator[list[LakeFile]]:
    """Groups of files that one Spark job sends, by hour or day, in order of queue and offset."""
    sizes = dict(lake.walk(".parquet"))
    files = [file for path in sizes if (file := layout.parse_path(path)) is not None]
    files = [file for file in files if chosen.has(file) and file.path not in done]
    files.sort(key=lambda file: (_slot_ms(file.folder), file.topic, file.source, file.first))
    for _, of_slot in groupby(files, key=lambda file: _slot_ms(file.folder)):
        unit: list[LakeFile] = []
        size = 0
        for file in of_slot:
            if unit and size >= UNIT_BYTES and not in_order_of_time:
                yield unit
                unit, size = [], 0
            unit.append(file)
            size += sizes[file.path]
        yield unit


def _rows(
    session: Any, lake: Lake, files: Sequence[LakeFile], chosen: Selection, pace: Pace
) -> Any:
    """The messages of some files in the order of sending, with the property `ORIGIN`."""
    from pyspark.sql import functions as sql

    frame = frames.of_files(session, lake, files)
    if chosen.start_ms is not None:
        frame = frame.where(sql.unix_millis("store_timestamp") >= chosen.start_ms)
    if chosen.end_ms is not None:
        frame = frame.where(sql.unix_millis("store_timestamp") < chosen.end_ms)
    if chosen.tags:
        frame = frame.where(sql.col("tags").isin(list(chosen.tags)))
    broker = sql.when(sql.col("broker_name") == "", sql.col("store_host")).otherwise(
        sql.col("broker_name")
    )
    origin = sql.concat_ws("|", broker, "topic", "queue_id", "queue_offset")
    own = sql.map_filter("properties", lambda key, _: key != ORIGIN)
    properties = sql.map_concat(own, sql.create_map(sql.lit(ORIGIN), origin))
    queue = ("broker_name", "topic", "queue_id")
    if pace.is_set:
        first = ("store_timestamp",) if pace.speed else ()
        frame = frame.repartition(1).sortWithinPartitions(*first, *queue, "queue_offset")
    else:
        frame = frame.repartition(SLICE_TASKS, *queue)
        frame = frame.sortWithinPartitions(*queue, "queue_offset")
    sent = ("body", "tags", "keys", "flag", "store_timestamp")
    return frame.select(*sent, properties.alias("properties"))

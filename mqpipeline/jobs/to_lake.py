"""to-lake: copies the messages of topics to a lake, each once, even if the job is killed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import msgspec

from mqpipeline.errors import UsageError
from mqpipeline.jobs.bodies import Body, with_value
from mqpipeline.jobs.session import open_session
from mqpipeline.jobs.topics import Backlog, Moment, Piece, look, parse_options, source_options
from mqpipeline.lake import state
from mqpipeline.lake.lake_writer import WrittenFile
from mqpipeline.lake.layout import Interval
from mqpipeline.lake.storage import Lake
from mqpipeline.lake.transaction import Observer, Transaction, check, opened
from mqpipeline.sinks import lake_sink

__all__ = ["LakePlan", "LakeReport", "Progress", "plan_to_lake", "to_lake"]

JOB = "to-lake"
ROWS_MAX = 1_000_000
"""Most messages of one queue in a round."""
ROWS_PER_TASK = 500_000
TASKS_MIN = 8

Format = Literal["parquet", "delta"]
Progress = Callable[[int, int], None]
"""Called with the number of written messages, and with the number that the run found at its
start."""


class TopicReport(msgspec.Struct, kw_only=True, rename="camel"):
    """The result for one topic."""

    topic: str
    queues: int = 0
    messages: int = 0
    bytes: int = 0
    files: int = 0
    unparsed: int = 0
    """Messages whose body does not match the schema."""
    lost: int = 0
    """Offsets that the brokers deleted before the job read them."""
    lag: int = 0
    """Offsets that are still unread at the end of the run."""


class LakeReport(msgspec.Struct, kw_only=True):
    """The result of a run, by topic."""

    topics: dict[str, TopicReport] = {}
    rounds: int = 0

    def add(self, files: Sequence[WrittenFile]) -> int:
        """Count the files of a round; returns the number of its rows."""
        for file in files:
            of_topic = self.topics[file.topic]
            of_topic.messages += file.rows
            of_topic.bytes += file.bytes
            of_topic.files += 1
            of_topic.unparsed += file.unparsed
        self.rounds += 1
        return sum(file.rows for file in files)


class LakePlan(msgspec.Struct, frozen=True):
    """The plan of a run: what it would read now."""

    backlog: Backlog
    rounds: int


def plan_to_lake(
    lake: str,
    topics: Sequence[str],
    options: Mapping[str, str] | None = None,
    *,
    namesrv: str | None = None,
    name: str = JOB,
    start: Moment = "earliest",
    end: Moment = "latest",
    rows_max: int = ROWS_MAX,
    by: Interval = "hour",
    file_format: Format = "parquet",
) -> LakePlan:
    """What `to_lake` would do; writes nothing and does not start Spark."""
    parsed = parse_options(namesrv, options or {})
    done = check(Lake(lake), name, JOB, _settings(by, file_format)).done
    _refuse_other_readers(Lake(lake), name, topics)
    backlog = look(parsed, topics, done, start, end)
    return LakePlan(backlog, sum(1 for _ in backlog.rounds(rows_max)))


def to_lake(
    lake: str,
    topics: Sequence[str],
    options: Mapping[str, str] | None = None,
    *,
    namesrv: str | None = None,
    name: str = JOB,
    start: Moment = "earliest",
    end: Moment = "latest",
    rows_max: int = ROWS_MAX,
    by: Interval = "hour",
    file_format: Format = "parquet",
    body: Body | None = None,
    spark: Callable[[], Any] = open_session,
    on_step: Observer = lambda step: None,
    on_progress: Progress = lambda done, total: None,
    stopped: Callable[[], bool] = lambda: False,
) -> LakeReport:
    """Write the new messages of topics to a lake, and save the progress there.

    lake: a folder, or a URI that pyarrow supports. options: options of format("rocketmq"), such as
    `tag` or `addressMap`. name: name of the job's state in the lake. start: where to start queues
    that the job has never read. end: where to end all queues. rows_max: most messages per queue in
    one round; a finished round is committed. by: one folder per hour or day of the store timestamp,
    in UTC. file_format: parquet, or delta for a Delta table, which needs the extra `delta`.
    spark: returns the Spark session; called only if there is something to read. stopped: called
    before each round; True ends the run. Raises mqclient's errors, and PipelineError.
    """
    parsed = parse_options(namesrv, options or {})
    if body is not None:
        body.check()
    opened_lake = Lake(lake)
    source = partial(source_options, namesrv, options or {})
    with opened(opened_lake, name, JOB, _settings(by, file_format), on_step) as run:
        _refuse_other_readers(opened_lake, name, topics)
        backlog = look(parsed, topics, run.state.done, start, end)
        report = _new_report(backlog)
        written = 0
        for pieces in backlog.rounds(rows_max):
            if stopped():
                break
            written += report.add(_round(run, pieces, source, by, body, spark))
            on_progress(written, backlog.rows)
        for piece in look(parsed, topics, run.state.done, start).pieces:
            report.topics[piece.queue.topic].lag += piece.rows
    return report


def _settings(by: Interval, file_format: Format) -> dict[str, str]:
    return {"by": by, "format": file_format}


def _refuse_other_readers(lake: Lake, name: str, topics: Sequence[str]) -> None:
    """Raise UsageError if another job reads one of these topics: it would be in the lake twice."""
    for other, known in state.all_states(lake):
        if other != name and known.job == JOB:
            read = {key.split("|", 1)[1].rpartition("|")[0] for key in {**known.done, **known.plan}}
            if twice := read & set(topics):
                raise UsageError(
                    f"job {other} of lake {lake.where} reads topic {min(twice)} too, and two jobs "
                    f"would write it twice: use --name {other}, or another lake"
                )


def _round(
    run: Transaction,
    pieces: Sequence[Piece],
    source: Callable[[Sequence[Piece]], dict[str, str]],
    by: Interval,
    body: Body | None,
    spark: Callable[[], Any],
) -> list[WrittenFile]:
    """Read these pieces into staged files, and commit the files to the lake."""
    session = spark()
    tasks = max(TASKS_MIN, -(-sum(piece.rows for piece in pieces) // ROWS_PER_TASK))
    options = {"partitions": str(tasks), **source(pieces)}
    frame = session.read.format("rocketmq").options(**options).load()
    frame = with_value(session, frame, body)
    ranges = {piece.key: (piece.first, piece.end) for piece in pieces if piece.rows}
    run.begin(ranges)
    staged = lake_sink.write(frame, run.lake, run.staging, by, ranges=ranges)
    files = [file for _, file in staged]
    moves = [(where, file.path) for where, file in staged]
    done = {piece.key: piece.end for piece in pieces}
    run.commit(moves, done, sum(file.rows for file in files))
    return files


def _new_report(backlog: Backlog) -> LakeReport:
    report = LakeReport()
    for piece in backlog.pieces:
        topic = piece.queue.topic
        report.topics.setdefault(topic, TopicReport(topic=topic)).queues += 1
    for piece in backlog.lost:
        report.topics[piece.queue.topic].lost += piece.rows
    return report

"""`mqpipeline to-lake`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from mqcommon.cli.output import chosen_format, write_rows
from mqcommon.signals import until_stopped
from mqpipeline.cli.options import (
    PIECE_COLUMNS,
    Run,
    job_options,
    moment_option,
    namesrv_options,
    piece_row,
    progress_bar,
)
from mqpipeline.jobs import to_lake as job
from mqpipeline.jobs.bodies import Body

__all__ = ["to_lake"]

COLUMNS = ("topic", "queues", "messages", "bytes", "files", "unparsed", "lost", "lag")


@click.command("to-lake")
@click.argument("topics", nargs=-1, required=True)
@click.option("--lake", required=True, help="a folder, or s3://BUCKET/PATH, gs://..., hdfs://...")
@click.option(
    "--name", default=job.JOB, show_default=True, help="name of the job's state in the lake"
)
@moment_option(
    "--from", "start", "earliest", "where to start a new queue: earliest, latest or a time"
)
@moment_option("--until", "end", "latest", "where to end this run: latest or a time")
@click.option(
    "--by",
    type=click.Choice(["hour", "day"]),
    default="hour",
    show_default=True,
    help="write one folder per hour or per day of the store time, in UTC",
)
@click.option(
    "--rows",
    type=click.IntRange(1),
    default=job.ROWS_MAX,
    show_default=True,
    help="most messages per queue in a round; after a kill, the last round is repeated",
)
@click.option(
    "--body", type=click.Choice(["json", "avro"]), help="decode bodies into the column `value`"
)
@click.option("--schema", help="json: a schema such as 'a int, b string'; avro: an .avsc file")
@click.option(
    "--format",
    "file_format",
    type=click.Choice(["parquet", "delta"]),
    default="parquet",
    show_default=True,
    help="format of the lake: plain Parquet files, or a Delta table",
)
@click.option("--follow", is_flag=True, help="run until SIGTERM; it ends after the current round")
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=60.0,
    show_default=True,
    help="with --follow: seconds between two checks for new messages",
)
@namesrv_options
@job_options
def to_lake(
    topics: tuple[str, ...],
    lake: str,
    namesrv: str | None,
    options: dict[str, str],
    body: str | None,
    schema: str | None,
    follow: bool,
    every: float,
    run: Run,
    **chosen: Any,
) -> None:
    """Write the new messages of TOPICS to a lake, each message once.

    The folder _mqpipeline of the lake stores the progress of each queue; the next run continues
    from there, also after a crash.
    """
    chosen["rows_max"] = chosen.pop("rows")
    if run.dry_run:
        plan = job.plan_to_lake(lake, topics, options, namesrv=namesrv, **chosen)
        rows = [{**piece_row(piece), "rounds": plan.rounds} for piece in plan.backlog.pieces]
        write_rows(rows, (*PIECE_COLUMNS, "rounds"), run.output)
        return
    session = run.session(job.JOB)
    chosen["body"] = _body(body, schema)

    def once(stopped: Any) -> None:
        with progress_bar(job.JOB) as show:
            report = job.to_lake(
                lake, topics, options, namesrv=namesrv, spark=session,
                on_progress=show, stopped=lambda: stopped(0), **chosen,
            )  # fmt: skip
        if not follow or report.rounds:
            rows = [msgspec.to_builtins(topic) for topic in report.topics.values()]
            write_rows(rows, COLUMNS, chosen_format(run.output))

    with until_stopped() as stopped:
        once(stopped)
        while follow and not stopped(every):
            once(stopped)


def _body(kind: Any, schema: str | None) -> Body | None:
    if (kind is None) != (schema is None):
        raise click.UsageError("--body and --schema must be given together")
    return None if kind is None or schema is None else Body(kind, schema)

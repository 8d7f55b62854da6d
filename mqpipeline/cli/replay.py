"""`mqpipeline replay`."""

from __future__ import annotations

import click
import msgspec

from mqcommon.cli.options import milliseconds_option, tags_option, topic_option
from mqcommon.cli.output import chosen_format, write_rows
from mqcommon.names import tag_names
from mqpipeline.cli.options import Run, job_options, namesrv_options, progress_bar
from mqpipeline.jobs import replay as job

__all__ = ["replay"]

COLUMNS = ("topic", "messages", "files", "units")
PLAN_COLUMNS = ("unit", "file", "first", "last")


@click.command()
@click.argument("lake")
@topic_option("topic to send to; it must exist", argument="target", required=True)
@click.option(
    "--of", "topics", multiple=True, help="replay only this topic of the lake; may be repeated"
)
@milliseconds_option("--from", "start_ms", "only messages stored at this time or later")
@milliseconds_option("--until", "end_ms", "only messages stored before this time")
@tags_option()
@click.option("--rate", type=click.FloatRange(0, min_open=True), help="messages per second")
@click.option(
    "--speed",
    type=click.FloatRange(0, min_open=True),
    help="replay at this multiple of the original speed, by store time",
)
@click.option(
    "--name", default=job.JOB, show_default=True, help="name of the job's state in the lake"
)
@namesrv_options
@job_options
def replay(
    lake: str,
    target: str,
    topics: tuple[str, ...],
    start_ms: int | None,
    end_ms: int | None,
    tags: str | None,
    rate: float | None,
    speed: float | None,
    name: str,
    namesrv: str | None,
    options: dict[str, str],
    run: Run,
) -> None:
    """Send messages of LAKE to a topic again.

    Every sent message gets the property mqpipelineOrigin. After a kill, the next run continues with
    the first unfinished file and sends that file's messages again.
    """
    if rate and speed:
        raise click.UsageError("give --rate or --speed, not both")
    chosen = job.Selection(topics, start_ms, end_ms, tuple(sorted(tag_names(tags) or ())))
    if run.dry_run:
        plan = job.plan_replay(lake, target, chosen, name=name, in_order_of_time=bool(speed))
        rows = [
            {"unit": unit, "file": file.path, "first": file.first, "last": file.last}
            for unit, files in enumerate(plan.units, 1)
            for file in files
        ]
        write_rows(rows, PLAN_COLUMNS, run.output)
        return
    session = run.session(job.JOB)
    with progress_bar(job.JOB, "files") as show:
        report = job.replay(
            lake, target, chosen, options, namesrv=namesrv, name=name, rate=rate or 0.0,
            speed=speed or 0.0, spark=session, on_progress=show,
        )  # fmt: skip
    write_rows([msgspec.to_builtins(report)], COLUMNS, chosen_format(run.output))

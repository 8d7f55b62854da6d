"""`mqpipeline recover`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from mqcommon.cli.exit_codes import DAMAGED
from mqcommon.cli.options import topic_option
from mqcommon.cli.output import chosen_format, write_rows
from mqpipeline.cli.options import Run, job_options, progress_bar
from mqpipeline.jobs import recover as job

__all__ = ["recover"]

COLUMNS = ("store", "topics", "messages", "bytes", "files", "damagedPlaces", "damagedBytes")
PLAN_COLUMNS = ("store", "first", "end")


@click.command()
@click.argument("stores", nargs=-1, required=True, type=click.Path(exists=True, file_okay=False))
@click.option("--lake", required=True, help="a folder, or s3://BUCKET/PATH, gs://..., hdfs://...")
@click.option(
    "--name", default=job.JOB, show_default=True, help="name of the job's state in the lake"
)
@topic_option("recover only this topic")
@click.option(
    "--by",
    type=click.Choice(["hour", "day"]),
    default="hour",
    show_default=True,
    help="write one folder per hour or per day of the store time, in UTC",
)
@click.option("--skip-damage", is_flag=True, help="skip and count damaged records, and exit with 5")
@job_options
@click.pass_context
def recover(
    context: click.Context,
    /,
    stores: tuple[str, ...],
    lake: str,
    skip_damage: bool,
    run: Run,
    **chosen: Any,
) -> None:
    """Write the messages in the files of STORES to a lake.

    A store is the store directory of a broker, ours or Java's; the broker may run or not. The path
    must be the same for driver and workers. The lake saves the progress, and the next run continues
    from there.
    """
    if run.dry_run:
        plan = job.plan_recover(lake, stores, **chosen)
        write_rows([msgspec.to_builtins(piece) for piece in plan], PLAN_COLUMNS, run.output)
        return
    session = run.session(job.JOB)
    with progress_bar(job.JOB, "bytes") as show:
        report = job.recover(
            lake,
            stores,
            fail_on_data_loss=not skip_damage,
            spark=session,
            on_progress=show,
            **chosen,
        )
    rows = [msgspec.to_builtins(store) for store in report.stores.values()]
    write_rows(rows, COLUMNS, chosen_format(run.output))
    if report.damaged:
        click.echo("mqpipeline: skipped damaged records; see mqstore verify STORE", err=True)
        context.exit(DAMAGED)

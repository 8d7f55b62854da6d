"""`mqpipeline compact`."""

from __future__ import annotations

import click
import msgspec

from mqcommon.cli.output import chosen_format, write_rows
from mqpipeline.cli.options import Run, job_options, progress_bar
from mqpipeline.jobs import compact as job

__all__ = ["compact"]

COLUMNS = ("folders", "filesBefore", "filesAfter", "bytesBefore", "bytesAfter", "messages")
PLAN_COLUMNS = ("folder", "files", "bytes")


@click.command()
@click.argument("lake")
@click.option(
    "--target-mib",
    type=click.IntRange(1),
    default=job.TARGET_BYTES >> 20,
    show_default=True,
    help="size to which files are merged, in MiB",
)
@job_options
def compact(
    lake: str,
    target_mib: int,
    run: Run,
) -> None:
    """Merge the small files of LAKE within each hour or day. Stop its other jobs first."""
    target_bytes = target_mib << 20
    if run.dry_run:
        plans = job.plan_compact(lake, target_bytes=target_bytes)
        rows = [{**msgspec.to_builtins(plan), "files": len(plan.files)} for plan in plans]
        write_rows(rows, PLAN_COLUMNS, run.output)
        return
    session = run.session(job.JOB)
    with progress_bar(job.JOB, "files") as show:
        report = job.compact(lake, target_bytes=target_bytes, spark=session, on_progress=show)
    write_rows([msgspec.to_builtins(report)], COLUMNS, chosen_format(run.output))

"""`mqpipeline audit`."""

from __future__ import annotations

import os
from typing import Any

import click

from mqcommon import files
from mqcommon.cli.exit_codes import DAMAGED
from mqcommon.cli.output import chosen_format, write_rows
from mqpipeline.cli.options import (
    PIECE_COLUMNS,
    Run,
    job_options,
    moment_option,
    namesrv_options,
    piece_row,
)
from mqpipeline.errors import UsageError
from mqpipeline.jobs import audit as job

__all__ = ["audit"]

COLUMNS = {
    "topics": ("topic", "messages", "repeatedIds", "extraCopies"),
    "queues": (
        *("topic", "broker", "queue", "first", "last", "messages"),
        *("gaps", "missing", "firstMissing", "repeated"),
    ),
    "hours": ("topic", "hour", "messages", "p50Ms", "p95Ms", "p99Ms", "maxMs"),
    "consumption": ("topic", "group", "hour", "messages", "p50Ms", "p95Ms", "p99Ms", "maxMs"),
}


@click.command()
@click.argument("topics", nargs=-1)
@click.option("--lake", help="audit the files of this lake instead of a cluster")
@moment_option("--from", "start", "earliest", "where to begin: earliest or a time")
@moment_option("--until", "end", "latest", "where to end: latest or a time")
@click.option(
    "--html",
    type=click.Path(dir_okay=False),
    help="also write an HTML page with plots to this file",
)
@namesrv_options
@job_options
@click.pass_context
def audit(
    context: click.Context,
    /,
    topics: tuple[str, ...],
    lake: str | None,
    html: str | None,
    namesrv: str | None,
    options: dict[str, str],
    run: Run,
    **moments: Any,
) -> None:
    """Find gaps and repeated messages in TOPICS, and report the delays of messages.

    Exits with 5 if offsets are missing between the first and the last one of a queue.
    """
    if not topics and lake is None:
        raise click.UsageError("name topics, or --lake")
    if html is not None and not os.path.isdir(os.path.dirname(html) or "."):
        raise UsageError(f"--html {html}: there is no such folder")
    if run.dry_run:
        if lake is not None:
            raise click.UsageError("--dry-run works only with topics of a cluster, not with --lake")
        plan = job.plan_audit(topics, options, namesrv=namesrv, **moments)
        write_rows(map(piece_row, plan.pieces), PIECE_COLUMNS, run.output)
        return
    session = run.session("audit")
    if lake is not None:
        report = job.audit_lake(lake, topics, spark=session)
    else:
        report = job.audit(topics, options, namesrv=namesrv, spark=session, **moments)
    _write(report, chosen_format(run.output))
    if html is not None:
        from mqpipeline.jobs.audit_page import page

        files.replace(html, page(report, f"Audit of {', '.join(topics) or lake}").encode())
    if report.gaps:
        context.exit(DAMAGED)


def _write(report: job.AuditReport, output: str) -> None:
    """Write a table for each kind of row; other formats have all rows in one list, with the
    kind."""
    kinds = {name: getattr(report, name) for name in COLUMNS}
    if output != "table":
        rows = [{"kind": kind, **row} for kind, found in kinds.items() for row in found]
        columns = dict.fromkeys(name for names in COLUMNS.values() for name in names)
        write_rows(rows, ["kind", *columns], output)
        return
    for kind, found in kinds.items():
        if found:
            click.echo(kind)
            write_rows(found, COLUMNS[kind], "table")

"""`mqpipeline dlq`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from mqcommon.cli.output import chosen_format, write_rows
from mqpipeline.cli.options import (
    PIECE_COLUMNS,
    Run,
    job_options,
    namesrv_options,
    piece_row,
)
from mqpipeline.jobs import dlq as job

__all__ = ["dlq"]

COLUMNS = ("group", "messages", "oldest", "newest", "originalTopics", "retries", "tags", "keys")
SAMPLE_COLUMNS = ("group", "stored", "queue", "offset", "tags", "keys", "retries", "body")


@click.command()
@click.argument("groups", nargs=-1)
@click.option(
    "--sample", type=click.IntRange(0), default=0, help="newest messages to show per group"
)
@namesrv_options
@job_options
def dlq(
    groups: tuple[str, ...],
    sample: int,
    namesrv: str | None,
    options: dict[str, str],
    run: Run,
) -> None:
    """Report the messages in the dead-letter topics of GROUPS, default all groups."""
    if run.dry_run:
        plan = job.plan_dlq(groups, options, namesrv=namesrv)
        write_rows(map(piece_row, plan), PIECE_COLUMNS, run.output)
        return
    session = run.session(job.JOB)
    reports = job.dlq(groups, options, namesrv=namesrv, samples=sample, spark=session)
    output = chosen_format(run.output)
    if output in ("json", "jsonl"):
        write_rows([msgspec.to_builtins(report) for report in reports], (), output)
        return
    write_rows([_row(report) for report in reports], COLUMNS, output)
    shown = [{"group": report.group, **_sample(found)} for report in reports
             for found in report.samples]  # fmt: skip
    if shown:
        write_rows(shown, SAMPLE_COLUMNS, output)


def _row(report: job.GroupReport) -> dict[str, Any]:
    few, many = report.retries_min, report.retries_max
    return {
        "group": report.group,
        "messages": report.messages,
        "oldest": _time(report.oldest_ms),
        "newest": _time(report.newest_ms),
        "originalTopics": " ".join(report.original_topics),
        "retries": few if few == many else f"{few} to {many}",
        "tags": " ".join(report.tags),
        "keys": " ".join(report.keys),
    }


def _sample(found: dict[str, Any]) -> dict[str, Any]:
    return {**found, "stored": _time(found["storedMs"])}


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return ""
    return datetime.fromtimestamp(milliseconds // 1000, UTC).isoformat()

"""`mqstore export`: write messages of a store to a file."""

from __future__ import annotations

from typing import Any

import click

from mqcommon.cli.exit_codes import DAMAGED
from mqcommon.cli.output import chosen_format, output_option, write_rows
from mqcommon.cli.progress import progress
from mqcommon.cli.running import refusing_arguments
from mqcommon.export_formats import FORMATS
from mqstore.cli.options import (
    check_start,
    check_stored_topic,
    directory_argument,
    filter_options,
    wanted_of,
)
from mqstore.offline import open as open_store
from mqstore.offline.export import ExportReport
from mqstore.offline.export import export as write_export

__all__ = ["export"]

COLUMNS = ("file", "format", "messages", "keptBack", "gaps", "gapBytes", "undecodable")


@click.command()
@directory_argument
@click.option("--to", required=True, type=click.Path(dir_okay=False), help="the file to write")
@click.option(
    "--format", type=click.Choice(FORMATS), help="file format; default: from the file extension"
)
@click.option("--everything", is_flag=True, help="include RocketMQ's internal messages")
@click.option("--force", is_flag=True, help="replace an existing file")
@filter_options
@output_option
@click.pass_context
def export(
    context: click.Context,
    /,
    directory: str,
    to: str,
    format: str | None,
    everything: bool,
    force: bool,
    output: str | None,
    **chosen: Any,
) -> None:
    """Write the messages of the store in DIRECTORY to a file, in the order of the log.

    The file extension selects the format: .jsonl, .jsonl.zst, .csv or .parquet. `mqclient send
    --file FILE` sends the messages to a running broker. Records that no consumer would receive any
    more are skipped (copies for retries, delivered delayed messages, half messages). Exits with 5
    if damage was skipped.
    """
    reader = open_store(directory)
    start = check_start(reader, chosen)
    check_stored_topic(reader, chosen["topic"])
    with progress() as report_progress, refusing_arguments():
        report = write_export(
            reader,
            to,
            wanted_of(chosen),
            start=start,
            count=chosen["count"],
            format=format,
            everything=everything,
            replace=force,
            progress=report_progress,
        )
    if chosen_format(output) == "table":
        click.echo(_sentence(report))
    else:
        write_rows([_row(report)], COLUMNS, output)
    if report.damaged:
        click.echo(f"mqstore: {_damage(report)}: mqstore verify {directory}", err=True)
        context.exit(DAMAGED)


def _row(report: ExportReport) -> dict[str, Any]:
    return {
        "file": str(report.path),
        "format": report.format,
        "messages": report.messages,
        "keptBack": report.kept_back,
        "gaps": len(report.gaps),
        "gapBytes": sum(gap.end - gap.start for gap in report.gaps),
        "undecodable": len(report.undecodable),
    }


def _sentence(report: ExportReport) -> str:
    said = f"{report.path}: {report.messages} messages"
    if report.kept_back:
        said += f"; skipped {report.kept_back} internal records of RocketMQ"
    return said


def _damage(report: ExportReport) -> str:
    row = _row(report)
    return (
        f"skipped {row['gapBytes']} bytes of damaged records in {row['gaps']} places and "
        f"{row['undecodable']} messages whose body does not decompress"
    )

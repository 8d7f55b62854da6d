"""`mqstore verify`: check log, queues, index and offsets against each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from mqcommon.cli.exit_codes import DAMAGED
from mqcommon.cli.output import chosen_format, output_option, write_rows
from mqcommon.cli.progress import Report, progress
from mqstore.cli.options import directory_argument
from mqstore.offline import Finding, StoreReader, VerifyReport
from mqstore.offline import open as open_store

__all__ = ["verify"]

COLUMNS = ("severity", "kind", "place", "offset", "what")


@click.command()
@directory_argument
@output_option
@click.pass_context
def verify(context: click.Context, directory: str, output: str | None) -> None:
    """Check the store in DIRECTORY: log, queues, index, checkpoint and offsets.

    Prints one row per finding and then the counts; exits with 5 if the store is damaged. Notices
    are not damage: the next start repairs them, or they are only for your information.
    """
    reader = open_store(directory)
    with progress() as bar:
        report = reader.verify(_place_of(reader, bar))
    rows = [*_rows("damage", report.findings), *_rows("notice", report.notices)]
    if chosen_format(output) == "table":
        if rows:
            write_rows(rows, COLUMNS, "table")
        click.echo(_sentence(report))
        if report.damaged:
            click.echo(f"to save the good messages: mqstore repair {directory} --to NEW_DIRECTORY")
    else:
        write_rows([*rows, _summary(report)], COLUMNS, output)
    context.exit(DAMAGED if report.damaged else 0)


def _place_of(reader: StoreReader, bar: Report | None) -> Callable[[int], None] | None:
    """A progress callback that moves the bar by physical offset."""
    if bar is None:
        return None
    start, end = reader.min_physical_offset, reader.max_physical_offset
    return lambda offset: bar("verify", offset - start, end - start)


def _rows(severity: str, findings: tuple[Finding, ...]) -> list[dict[str, Any]]:
    return [
        {"severity": severity, "kind": f.kind, "place": f.place, "offset": f.offset, "what": f.what}
        for f in findings
    ]


def _summary(report: VerifyReport) -> dict[str, Any]:
    return {
        "kind": "summary",
        "records": report.records,
        "recordBytes": report.record_bytes,
        "logEnd": report.log_end,
        "queueEntries": report.queue_entries,
        "extensionUnits": report.extension_units,
        "indexEntries": report.index_entries,
        "offsets": report.offsets,
        "findings": report.finding_count,
        "notices": len(report.notices),
    }


def _sentence(report: VerifyReport) -> str:
    seen = (
        f"{report.records} records ({report.record_bytes} bytes), {report.queue_entries} queue "
        f"entries, {report.extension_units} extension units, {report.index_entries} index entries, "
        f"{report.offsets} offsets"
    )
    if not report.damaged:
        return f"ok: {seen}"
    left_out = report.finding_count - len(report.findings)
    more = f" ({left_out} not shown)" if left_out else ""
    return f"damaged: {report.finding_count} findings{more} in {seen}"

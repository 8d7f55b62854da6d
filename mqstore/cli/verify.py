"""`mqstore verify`: log, queues and index checked against each other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import click

from mqstore.cli.output import chosen_format, output_option, write_rows
from mqstore.offline import StoreReader, VerifyReport
from mqstore.offline import open as open_store

__all__ = ["verify"]

COLUMNS = ("kind", "place", "offset", "what")
EXIT_DAMAGED = 5


@click.command()
@click.argument("directory", type=click.Path())
@output_option
@click.pass_context
def verify(context: click.Context, directory: str, output: str | None) -> None:
    """Check the store in DIRECTORY: every record, queue unit and index entry.

    Writes one row per finding and then the counts; exits 5 when something is wrong.
    """
    reader = open_store(directory)
    with _progress(reader) as progress:
        report = reader.verify(progress)
    rows = _findings(report)
    if chosen_format(output) == "table":
        if report.damaged:
            write_rows(rows, COLUMNS, "table")
        click.echo(_sentence(report))
    else:
        write_rows([*rows, _summary(report)], COLUMNS, output)
    context.exit(EXIT_DAMAGED if report.damaged else 0)


def _findings(report: VerifyReport) -> list[dict[str, Any]]:
    return [
        {"kind": f.kind, "place": f.place, "offset": f.offset, "what": f.what}
        for f in report.findings
    ]


def _summary(report: VerifyReport) -> dict[str, Any]:
    return {
        "kind": "summary",
        "records": report.records,
        "recordBytes": report.record_bytes,
        "queueEntries": report.queue_entries,
        "indexEntries": report.index_entries,
        "findings": report.finding_count,
    }


def _sentence(report: VerifyReport) -> str:
    seen = (
        f"{report.records} records ({report.record_bytes} bytes), "
        f"{report.queue_entries} queue units, {report.index_entries} index entries"
    )
    if not report.damaged:
        return f"ok: {seen}"
    left_out = report.finding_count - len(report.findings)
    more = f" ({left_out} not shown)" if left_out else ""
    return f"damaged: {report.finding_count} findings{more} in {seen}"


@contextmanager
def _progress(reader: StoreReader) -> Iterator[Callable[[int], None] | None]:
    """A bar on standard error while the log is read, if that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    start = reader.min_physical_offset
    length = max(reader.max_physical_offset - start, 1)
    with click.progressbar(length=length, label="verify", file=sys.stderr) as bar:
        yield lambda offset: bar.update(offset - start - bar.pos)

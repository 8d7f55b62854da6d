"""Results of commands, and how they are written: RocketMQ's text, an aligned table, or JSON or CSV.

A command returns a `Report`, a `Stream` or `Lines` if its result may be long or never ends, or a
`Live` table.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from msgspec import Struct

from mqadmin.java_text import millis_text
from mqcommon.cli import exit_codes
from mqcommon.cli.output import FORMATS as ROW_FORMATS
from mqcommon.cli.output import Row, RowStream, printable, table_of, write_bytes, write_rows

__all__ = [
    "FORMATS", "Lines", "Live", "Piece", "Report", "Result", "Round", "Row", "Stream", "write",
]  # fmt: skip

FORMATS = ("rocketmq", *ROW_FORMATS)
"""The values of --output."""
HEAD_LINES = 6
"""Lines of a live table besides its rows."""
TIME_FIELD = "imestamp"
"""End of the names of fields that hold a time in milliseconds; a table shows the local time."""


class Report(Struct, frozen=True):
    """The result of a command.

    rows: the results as values that JSON can represent. text: renders RocketMQ's text; called only
    when this text is shown. A command of our own has none and shows its table instead. single: the
    JSON output is one object, not a list. columns: the fields that `--output table` aligns, in this
    order; a command without columns shows its text there too.
    failure: why rows are missing. Every form ends with this error after the rows, but for
    RocketMQ's text, which has empty cells for missing figures. exit_code: of a command that found
    something wrong and did not fail.
    """

    rows: Sequence[Row]
    text: Callable[[], str] | None = None
    single: bool = False
    columns: Sequence[str] = ()
    failure: Exception | None = None
    exit_code: int = exit_codes.OK


class Piece(NamedTuple):
    """A part of a stream: a row, its lines of RocketMQ's text, or both."""

    text: str | None = None
    row: Row | None = None


class Stream(Struct, frozen=True):
    """A result that is written piece by piece. columns: the fields of the rows.

    widths: for a command of our own, the columns of its table and their usual widths.
    """

    pieces: AsyncIterator[Piece]
    columns: Sequence[str]
    widths: Mapping[str, int] | None = None


class Lines(Struct, frozen=True):
    """Ready lines of JSON, which are the only form of a result."""

    blocks: AsyncIterator[bytes]


class Round(NamedTuple):
    """The rows of one round. note: what the rows do not show."""

    rows: Sequence[Row]
    note: str | None = None


class Live(Struct, frozen=True):
    """A table that changes. On a terminal each round replaces the one before; in a pipe, JSON and
    CSV get the rows of all rounds, each with the time of its round."""

    rounds: AsyncIterator[Round]
    columns: Sequence[str]


Result = Report | Stream | Lines | Live


async def write(result: Result, form: str) -> int:
    """Write a result to standard output, and return the exit code. form: one of FORMATS."""
    if isinstance(result, Report):
        return _write_report(result, form)
    if isinstance(result, Live):
        await _write_live(result, form)
    elif isinstance(result, Lines):
        async for block in result.blocks:
            write_bytes(block)
            sys.stdout.flush()
    elif form in ("rocketmq", "table") and result.widths is None:
        await _write_texts(result.pieces)
    else:
        await _write_rows(result, form)
    return exit_codes.OK


def _write_report(report: Report, form: str) -> int:
    _write_rows_of(report, form)
    sys.stdout.flush()
    is_rocketmqs = form == "rocketmq" and report.text is not None
    if report.failure is not None and not is_rocketmqs:
        raise report.failure
    return report.exit_code


def _write_rows_of(report: Report, form: str) -> None:
    is_for_people = form in ("rocketmq", "table")
    if is_for_people and (report.text is None or (form == "table" and report.columns)):
        names = report.columns
        write_rows([_shown(row, names) for row in report.rows], names, "table")
    elif is_for_people and report.text is not None:
        _write_text(report.text())
    elif form == "json" and report.single and report.rows:
        sys.stdout.write(json.dumps(report.rows[0], ensure_ascii=False, indent=2) + "\n")
    else:
        columns = dict.fromkeys(name for row in report.rows for name in row)
        write_rows(report.rows, list(columns) or report.columns, form)


async def _write_texts(pieces: AsyncIterator[Piece]) -> None:
    async for piece in pieces:
        if piece.text is not None:
            _write_text(piece.text)
            sys.stdout.flush()


async def _write_rows(stream: Stream, form: str) -> None:
    """Write the rows. The document ends well also after an error and after Ctrl-C."""
    is_table = form in ("rocketmq", "table")
    widths = stream.widths or {}
    rows = RowStream(
        list(widths) if is_table else stream.columns, "table" if is_table else form, widths
    )
    try:
        async for piece in stream.pieces:
            if piece.row is not None:
                rows.write(_shown(piece.row, widths) if is_table else piece.row)
                sys.stdout.flush()
    finally:
        rows.finish()
        sys.stdout.flush()


async def _write_live(live: Live, form: str) -> None:
    if form in ("rocketmq", "table"):
        await _show_live(live)
        return
    rows = RowStream(("timestamp", *live.columns), form)
    try:
        async for shown in live.rounds:
            now_ms = int(time.time() * 1000)
            for row in shown.rows:
                rows.write({"timestamp": now_ms, **row})
            sys.stdout.flush()
            _write_note(shown)
    finally:  # JSON is a whole document even after a failure
        rows.finish()


async def _show_live(live: Live) -> None:
    """Draw the rounds on a terminal's own screen, as far as they fit; else one after another."""
    if not sys.stdout.isatty():
        async for shown in live.rounds:
            write_rows(shown.rows, live.columns, "table")
            sys.stdout.flush()
            _write_note(shown)
        return
    from rich.console import Console
    from rich.live import Live as Screen

    console = Console()
    with Screen(console=console, screen=True, auto_refresh=False) as screen:
        async for shown in live.rounds:
            fitting = shown.rows[: max(1, console.height - HEAD_LINES)]
            table = table_of(fitting, live.columns)
            table.title = time.strftime("%H:%M:%S") + "   Ctrl-C ends"
            table.caption = shown.note and printable(shown.note)
            screen.update(table, refresh=True)


def _write_note(shown: Round) -> None:
    if shown.note is not None:
        print(shown.note, file=sys.stderr)


def _write_text(text: str) -> None:
    sys.stdout.write(text if not text or text.endswith("\n") else text + "\n")


def _shown(row: Row, columns: Iterable[str]) -> Row:
    """The cells of a row of a table."""
    return {name: _cell(name, row.get(name)) for name in columns}


def _cell(name: str, value: object) -> object:
    """The value as a table shows it; a number stays one, so that it is aligned on the right."""
    if name.endswith(TIME_FIELD) and isinstance(value, int):
        return millis_text(value) if value > 0 else ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value

"""Results of commands, and how they are written: RocketMQ's text, an aligned table, or JSON or CSV.

A command returns a `Report`, a `Stream` if its result may be long or never ends, or a `Live` table.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from mqadmin.java_text import millis_text
from mqcommon.cli import exit_codes
from mqcommon.cli.output import FORMATS as ROW_FORMATS
from mqcommon.cli.output import Row, RowStream, printable, table_of, write_rows

__all__ = ["FORMATS", "Live", "Piece", "Report", "Round", "Row", "Stream", "write"]

FORMATS = ("rocketmq", *ROW_FORMATS)
"""The values of --output."""
HEAD_LINES = 6
"""Lines of a live table besides its rows."""
TIME_FIELD = "imestamp"
"""End of the names of fields that hold a time in milliseconds; a table shows the local time."""


@dataclass(frozen=True, slots=True)
class Report:
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


@dataclass(frozen=True, slots=True)
class Stream:
    """A result that is written piece by piece. columns: the fields of the rows."""

    pieces: AsyncIterator[Piece]
    columns: Sequence[str]


class Round(NamedTuple):
    """The rows of one round. note: what the rows do not show."""

    rows: Sequence[Row]
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Live:
    """A table that changes. On a terminal each round replaces the one before; in a pipe, JSON and
    CSV get the rows of all rounds, each with the time of its round."""

    rounds: AsyncIterator[Round]
    columns: Sequence[str]


async def write(result: Report | Stream | Live, form: str) -> int:
    """Write a result to standard output, and return the exit code. form: one of FORMATS."""
    if isinstance(result, Live):
        await _write_live(result, form)
        return exit_codes.OK
    if isinstance(result, Stream):
        await _write_stream(result, form)
        return exit_codes.OK
    _write_report(result, form)
    sys.stdout.flush()
    is_rocketmqs = form == "rocketmq" and result.text is not None
    if result.failure is not None and not is_rocketmqs:
        raise result.failure
    return result.exit_code


def _write_report(report: Report, form: str) -> None:
    is_for_people = form in ("rocketmq", "table")
    if is_for_people and (report.text is None or (form == "table" and report.columns)):
        names = report.columns
        shown = [{name: _cell(name, row.get(name)) for name in names} for row in report.rows]
        write_rows(shown, names, "table")
    elif is_for_people and report.text is not None:
        _write_text(report.text())
    elif form == "json" and report.single and report.rows:
        sys.stdout.write(json.dumps(report.rows[0], ensure_ascii=False, indent=2) + "\n")
    else:
        columns = dict.fromkeys(name for row in report.rows for name in row)
        write_rows(report.rows, list(columns) or report.columns, form)


async def _write_stream(stream: Stream, form: str) -> None:
    if form in ("rocketmq", "table"):
        async for piece in stream.pieces:
            if piece.text is not None:
                _write_text(piece.text)
                sys.stdout.flush()
        return
    rows = RowStream(stream.columns, form)
    async for piece in stream.pieces:
        if piece.row is not None:
            rows.write(piece.row)
            sys.stdout.flush()
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


def _cell(name: str, value: object) -> object:
    """The value as a table shows it; a number stays one, so that it is aligned on the right."""
    if name.endswith(TIME_FIELD) and isinstance(value, int):
        return millis_text(value) if value > 0 else ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, dict | list) else value

"""Writes rows as a table, JSON, JSON lines or CSV; by default a table on a terminal, else jsonl."""

from __future__ import annotations

import itertools
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import click

if TYPE_CHECKING:
    from rich.table import Table
    from typing_extensions import Buffer


__all__ = [
    "FORMATS",
    "Row",
    "RowStream",
    "chosen_format",
    "output_option",
    "printable",
    "table_of",
    "write_bytes",
    "write_lines",
    "write_rows",
]

FORMATS = ("table", "json", "jsonl", "csv")
PAGE_ROWS = 1_000

Row = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


def output_option(command: F) -> F:
    """Add the option --output to a command that writes rows."""
    option = click.option(
        "--output",
        type=click.Choice(FORMATS),
        default=None,
        help="table on a terminal, else jsonl",
    )
    return option(command)


def chosen_format(output: str | None) -> str:
    """The format of --output; without it, table for a terminal and jsonl for a pipe or file."""
    return output or ("table" if sys.stdout.isatty() else "jsonl")


def write_rows(rows: Iterable[Row], columns: Sequence[str], output: str | None) -> None:
    """Write rows to standard output.

    columns: columns of a table and of CSV, in this order; JSON has every field of a row.
    output: one of FORMATS; None chooses by the type of standard output.
    """
    chosen = chosen_format(output)
    if chosen == "table":
        _table(rows, columns)
        return
    stream = RowStream(columns, chosen)
    for row in rows:
        stream.write(row)
    stream.finish()


class RowStream:
    """Writes rows to standard output one by one, when later rows are not known yet.

    columns: the columns of a table and of CSV, in this order. output: one of FORMATS. widths: the
    usual width of a column of a table, where it is wider than its title; longer cells shift the
    rest of their line.
    """

    def __init__(
        self, columns: Sequence[str], output: str, widths: Mapping[str, int] | None = None
    ) -> None:
        self._columns = columns
        self._write = {
            "table": self._line,
            "json": self._json,
            "jsonl": self._jsonl,
            "csv": self._csv,
        }[output]
        self._is_json, self._before = output == "json", "[\n"
        if output == "table":
            self._widths = [max(len(name), (widths or {}).get(name, 0)) for name in columns]
            titles = self._aligned(list(columns))
            sys.stdout.write(f"{titles}\n{'─' * len(titles)}\n")
        if output == "csv":
            import csv

            self._csv_writer = csv.writer(sys.stdout, lineterminator="\n")
            if columns:
                self._csv_writer.writerow(columns)

    def write(self, row: Row) -> None:
        """Write one row; it may stay in the buffer of standard output until the next flush."""
        self._write(row)

    def finish(self) -> None:
        """End the document; needed only for JSON."""
        if self._is_json:
            sys.stdout.write("[]\n" if self._before == "[\n" else "\n]\n")

    def _line(self, row: Row) -> None:
        cells = [row.get(name) for name in self._columns]
        sys.stdout.write(self._aligned(cells) + "\n")

    def _aligned(self, cells: Sequence[object]) -> str:
        """The cells under their titles, numbers to the right."""
        texts = (
            f"{printable(cell):>{width}}"
            if isinstance(cell, int)
            else f"{printable(cell):<{width}}"
            for cell, width in zip(cells, self._widths, strict=True)
        )
        return "  ".join(texts).rstrip()

    def _jsonl(self, row: Row) -> None:
        sys.stdout.write(json.dumps(row, ensure_ascii=False) + "\n")

    def _json(self, row: Row) -> None:
        sys.stdout.write(self._before + json.dumps(row, ensure_ascii=False))
        self._before = ",\n"

    def _csv(self, row: Row) -> None:
        self._csv_writer.writerow([_csv_cell(row.get(name)) for name in self._columns])


def _csv_cell(value: object) -> object:
    """A cell of CSV: nested values become JSON text, None an empty cell."""
    if isinstance(value, bool | dict | list):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value


def write_bytes(text: Buffer) -> None:
    """Write UTF-8 bytes to standard output, after the text that was written before."""
    raw = getattr(sys.stdout, "buffer", None)
    if raw is None:  # standard output was replaced by a text-only object
        sys.stdout.write(bytes(text).decode())
        return
    sys.stdout.flush()
    raw.write(text)


class Lines(Protocol):
    """Lines that native code writes."""

    def __iter__(self) -> Iterator[Buffer]:
        """Blocks of whole lines."""

    def write(self, descriptor: int) -> None:
        """Write them all to an open file."""


def write_lines(walk: Lines) -> None:
    """Write the lines of a walk to standard output; in native code if it is a file or a pipe."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError):  # standard output was replaced by another object
        for lines in walk:
            write_bytes(lines)
        return
    sys.stdout.flush()
    walk.write(descriptor)


def printable(value: object) -> str:
    """A cell of a table; removes control characters, because users' text may contain some."""
    return "" if value is None else str(value).translate(_HARMLESS)


_HARMLESS = dict.fromkeys((*range(32), *range(127, 160)), "�") | {
    ord(blank): " " for blank in "\t\n\r"
}


def _table(rows: Iterable[Row], columns: Sequence[str]) -> None:
    """Write one page of rows at a time; column widths fit the rows of the page."""
    from rich.console import Console

    console = Console(width=None if sys.stdout.isatty() else 10_000)
    left = iter(rows)
    page = list(itertools.islice(left, PAGE_ROWS))
    console.print(table_of(page, columns))
    while page := list(itertools.islice(left, PAGE_ROWS)):
        console.print(table_of(page, columns, has_heading=False))


def table_of(shown: Sequence[Row], columns: Sequence[str], *, has_heading: bool = True) -> Table:
    """A table for rich, with numbers on the right."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, show_header=has_heading)
    for column in columns:
        cells = [cell for row in shown if (cell := row.get(column)) is not None]
        numbers = bool(cells) and all(isinstance(cell, int | float) for cell in cells)
        one_line = column == "body"
        table.add_column(
            column,
            justify="right" if numbers else "left",
            no_wrap=one_line,
            overflow="ellipsis" if one_line else "fold",
        )
    for row in shown:  # Text, because users' text must not be read as markup
        table.add_row(*(Text(printable(row.get(column))) for column in columns))
    return table

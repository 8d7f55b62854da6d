"""Rows to a table, JSON, JSON lines or CSV: a table on a terminal, JSON lines in a pipe."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

__all__ = ["FORMATS", "chosen_format", "output_option", "write_rows"]

FORMATS = ("table", "json", "jsonl", "csv")

Row = Mapping[str, Any]
F = TypeVar("F", bound=Callable[..., Any])


def output_option(command: F) -> F:
    """The option --output of a command that writes rows."""
    option = click.option(
        "--output",
        type=click.Choice(FORMATS),
        default=None,
        help="table on a terminal, else jsonl",
    )
    return option(command)


def chosen_format(output: str | None) -> str:
    """What --output says, else what fits where standard output goes."""
    return output or ("table" if sys.stdout.isatty() else "jsonl")


def write_rows(rows: Iterable[Row], columns: Sequence[str], output: str | None) -> None:
    """Write rows to standard output.

    columns: what a table and CSV show, in this order; JSON has every field of a row.
    output: one of FORMATS, None to choose by where standard output goes.
    """
    writers = {"table": _table, "json": _json, "jsonl": _jsonl, "csv": _csv}
    writers[chosen_format(output)](rows, columns)


def _jsonl(rows: Iterable[Row], columns: Sequence[str]) -> None:
    write = sys.stdout.write
    for row in rows:
        write(json.dumps(row, ensure_ascii=False) + "\n")


def _json(rows: Iterable[Row], columns: Sequence[str]) -> None:
    between = "[\n"
    for row in rows:
        sys.stdout.write(between + json.dumps(row, ensure_ascii=False))
        between = ",\n"
    sys.stdout.write("[]\n" if between == "[\n" else "\n]\n")


def _csv(rows: Iterable[Row], columns: Sequence[str]) -> None:
    writer = csv.DictWriter(sys.stdout, columns, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def _table(rows: Iterable[Row], columns: Sequence[str]) -> None:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    shown = list(rows)
    for column in columns:
        numbers = all(isinstance(row.get(column), int) for row in shown)
        table.add_column(column, justify="right" if numbers and shown else "left")
    for row in shown:
        cells = ("" if row.get(column) is None else str(row[column]) for column in columns)
        table.add_row(*(Text(cell) for cell in cells))  # Text: no markup in what users sent
    Console(width=None if sys.stdout.isatty() else 10_000).print(table)

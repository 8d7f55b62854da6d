"""What a command found, and its four ways onto standard output."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

FORMATS = ("table", "json", "jsonl", "csv")
"""Values of --output. table is RocketMQ's own text."""

Row = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a command.

    rows: one per thing found, values that JSON can hold. table: makes RocketMQ's text of the
    same; called only when that is asked for. single: json output is one object, not a list.
    """

    rows: Sequence[Row]
    table: Callable[[], str]
    single: bool = False


def render(report: Report, form: str) -> str:
    """The text of a report in one of FORMATS, ending in a newline unless it is empty."""
    text = _WRITERS[form](report)
    return text if not text or text.endswith("\n") else text + "\n"


def _json(report: Report) -> str:
    found: object = report.rows[0] if report.single and report.rows else list(report.rows)
    return json.dumps(found, ensure_ascii=False, indent=2)


def _jsonl(report: Report) -> str:
    return "\n".join(json.dumps(row, ensure_ascii=False) for row in report.rows)


def _csv(report: Report) -> str:
    names = list(dict.fromkeys(name for row in report.rows for name in row))
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    if names:
        writer.writerow(names)
    for row in report.rows:
        writer.writerow([_cell(row.get(name)) for name in names])
    return out.getvalue()


def _cell(value: object) -> object:
    """Nested values are JSON text; None is an empty cell."""
    if isinstance(value, bool | dict | list):
        return json.dumps(value, ensure_ascii=False)
    return "" if value is None else value


_WRITERS: Mapping[str, Callable[[Report], str]] = {
    "table": lambda report: report.table(),
    "json": _json,
    "jsonl": _jsonl,
    "csv": _csv,
}

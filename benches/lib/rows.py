"""Rows of a report, with and without a goal."""

from __future__ import annotations

import sys
from typing import Any

from benches.lib.harness import Report, verdict


class Rows:
    """Adds figures and goals to a report."""

    def __init__(self, report: Report) -> None:
        self._report = report

    def note(self, case: str, figure: float, unit: str) -> None:
        """Add a figure without a goal."""
        self._add({"case": case, "figure": figure, "unit": unit})

    def judge(self, case: str, figure: float, unit: str, limit: float, least: bool = False) -> None:
        """Add a figure that should be at most `limit`, or with `least` at least `limit`."""
        met = figure >= limit if least else figure <= limit
        goal = f"{'>=' if least else '<='} {limit:g}"
        row: dict[str, Any] = {"case": case, "figure": figure, "unit": unit, "goal": goal}
        self._add({**row, "met": verdict(met)})

    def _add(self, row: dict[str, Any]) -> None:
        print(*row.values(), file=sys.stderr, flush=True)
        self._report.rows.append(row)

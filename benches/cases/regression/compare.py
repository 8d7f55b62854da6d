"""Ratios now beside ratios then: what got worse, and the table that says so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Ratios = dict[str, float]
"""A case's time over its calibration's time: less is better."""
LIMIT = 0.15
"""More than this above the baseline is worse; as much below it is worth a new baseline.

A case whose ratios differed by more among the baseline's own measurements has that spread for its
limit: less than that says nothing about it.
"""


@dataclass(frozen=True)
class Change:
    """before, now: None for a case that is new, or that was not measured any more."""

    case: str
    before: float | None
    now: float | None
    limit: float = LIMIT

    @property
    def grown(self) -> float | None:
        """0.2 is a fifth slower than before."""
        return None if self.before is None or self.now is None else self.now / self.before - 1

    @property
    def verdict(self) -> str:
        """worse, better, same, new or gone."""
        if self.now is None:
            return "gone"
        if self.grown is None:
            return "new"
        if self.grown > self.limit:
            return "worse"
        return "better" if self.grown < -self.limit else "same"


def compare(
    now: Ratios, baseline: Ratios, spread: Mapping[str, float] | None = None
) -> list[Change]:
    """A change for every case of either, the worst first; raises ValueError for no figure at all.

    spread: by how much a case's ratios differed when the baseline was made, 0.2 is a fifth. A
    ratio that is not above zero measured nothing.
    """
    spread = spread or {}
    for case, ratio in [*now.items(), *baseline.items()]:
        if not ratio > 0:
            raise ValueError(f"{case}: a ratio of {ratio}")
    names = dict.fromkeys([*baseline, *now])
    changes = [
        Change(name, baseline.get(name), now.get(name), max(LIMIT, spread.get(name, 0.0)))
        for name in names
    ]
    return sorted(changes, key=lambda change: -(change.grown or 0.0))


def worse(changes: list[Change]) -> list[Change]:
    """What makes a run fail: slower than the limit, or not measured any more."""
    return [change for change in changes if change.verdict in ("worse", "gone")]


def markdown(changes: list[Change]) -> str:
    """The table, a line for each change."""
    lines = ["| case | baseline | now | change | limit | |", "|---|---|---|---|---|---|"]
    for change in changes:
        grown = "" if change.grown is None else f"{change.grown:+.0%}"
        figures = (_cell(change.before), _cell(change.now), grown, f"{change.limit:+.0%}")
        cells = (change.case, *figures, change.verdict)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.4g}"

"""Compares ratios with the baseline: which cases got worse, and the table that shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Ratios = dict[str, float]
"""A case's time divided by its calibration's time: less is better."""
LIMIT = 0.15
"""Above the baseline by more than this is worse; below by as much deserves a new baseline.

A case whose spread was larger when the baseline was measured has this spread as its limit, because
a smaller difference may be chance.
"""


@dataclass(frozen=True)
class Change:
    """One case. before: None if the case is new. now: None if it was not measured any more."""

    case: str
    before: float | None
    now: float | None
    limit: float = LIMIT

    @property
    def grown(self) -> float | None:
        """The relative change; 0.2 is a fifth slower than before."""
        return None if self.before is None or self.now is None else self.now / self.before - 1

    @property
    def verdict(self) -> str:
        """One of "worse", "better", "same", "new" or "gone"."""
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
    """A change for every case of either side, the worst first.

    spread: how much a case's ratios differed when the baseline was made, 0.2 is a fifth. Raises
    ValueError for a ratio that is not above zero, because then nothing was measured.
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
    """Changes that make a run fail: slower than the limit, or not measured any more."""
    return [change for change in changes if change.verdict in ("worse", "gone")]


def markdown(changes: list[Change]) -> str:
    """A table with a line for each change."""
    lines = ["| case | baseline | now | change | limit | |", "|---|---|---|---|---|---|"]
    for change in changes:
        grown = "" if change.grown is None else f"{change.grown:+.0%}"
        figures = (_cell(change.before), _cell(change.now), grown, f"{change.limit:+.0%}")
        cells = (change.case, *figures, change.verdict)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.4g}"

"""The same requests to Java RocketMQ 4.9.7 and to ours, in both data planes: the same replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.interop.differential.case_tables import CASE_TABLES
from tests.interop.differential.known_gaps import KNOWN_GAPS
from tests.interop.differential.masking import Outcome
from tests.interop.differential.tolerated import TOLERATED

if TYPE_CHECKING:
    from tests.interop.differential.conftest import Stands
    from tests.interop.differential.stand import Kind

PLANES: tuple[Kind, ...] = ("native", "python")
LINES = (*TOLERATED, *KNOWN_GAPS)


def allowed(case: str, theirs: Outcome, ours: Outcome) -> set[str]:
    """The parts of a case that may differ."""
    matching = (line for line in LINES if line.covers(case, theirs, ours))
    return {part for line in matching for part in line.parts.split()}


def complaint(case: str, theirs: Outcome, ours: Outcome) -> str | None:
    """A description of forbidden differences; None if there are none."""
    parts = set(ours.parts_unlike(theirs)) - allowed(case, theirs, ours)
    shown = [
        f"  {part}\n    java {getattr(theirs, part)!r}\n    ours {getattr(ours, part)!r}"
        for part in sorted(parts)
    ]
    return "\n".join([case, *shown]) if shown else None


@pytest.mark.parametrize("plane", PLANES)
@pytest.mark.parametrize("table", CASE_TABLES)
def test_replies_are_javas(stands: Stands, table: str, plane: Kind) -> None:
    play = stands.play(table)
    found = (
        complaint(f"{table}:{name}", theirs, play[plane][name])
        for name, theirs in play["java"].items()
    )
    complaints = [text for text in found if text]
    assert not complaints, f"{len(complaints)} differences\n" + "\n".join(complaints)


def test_both_planes_agree(stands: Stands) -> None:
    unlike = []
    for table in CASE_TABLES:
        play = stands.play(table)
        for name, native in play["native"].items():
            if parts := native.parts_unlike(play["python"][name]):
                unlike.append(f"{table}:{name} {parts}\n  {native}\n  {play['python'][name]}")
    assert not unlike, f"{len(unlike)} differences\n" + "\n".join(unlike)


def test_every_line_is_needed(stands: Stands) -> None:
    idle = set(LINES)
    for table in CASE_TABLES:
        play = stands.play(table)
        for name, theirs in play["java"].items():
            for ours in (play[plane][name] for plane in PLANES):
                parts = set(ours.parts_unlike(theirs))
                idle -= {
                    line
                    for line in idle
                    if parts & set(line.parts.split())
                    and line.covers(f"{table}:{name}", theirs, ours)
                }
    assert not idle, f"nothing differs any more under: {idle}"
    if KNOWN_GAPS:
        print(f"\n{len(KNOWN_GAPS)} known gaps:", *(line.why for line in KNOWN_GAPS), sep="\n  ")


def test_there_is_much_to_compare() -> None:
    assert sum(map(len, CASE_TABLES.values())) > 400

"""The overload bench judges its rounds correctly, shown on invented figures."""

import pytest

from benches.cases.overload import PHASES, Cores, Found, Round

ONE, OTHER, BOTH = frozenset([0]), frozenset([1]), frozenset([0, 1])
RATIO = "ratio (<= 2)"


def found(ratio: float, memory_mb: float = 30.0, has_goal: bool = True) -> dict[str, object]:
    """The row of a first second that is `ratio` times as bad at the broker as beside the sink."""
    one = a_round(0.2, 0.2 * ratio)
    one.memory_mb = memory_mb
    return next(Found(has_goal, [one]).rows("who", 1))


def a_round(beside: float, among: float, before: float = 0.1, after: float = 0.1) -> Round:
    """A round with the same figures in both phases."""
    return Round(before, after, dict.fromkeys(PHASES, beside), dict.fromkeys(PHASES, among))


def test_only_the_ratio_to_the_sink_has_a_limit() -> None:
    assert found(2.0)[RATIO] == pytest.approx(2.0)
    assert found(2.0)["to alone"] == pytest.approx(4.0)
    assert (found(1.9)["met"], found(2.1)["met"]) == ("yes", "no")


def test_a_limit_has_a_goal_for_memory_only() -> None:
    assert found(20.0, has_goal=False)["met"] == ""
    assert found(1.0, memory_mb=513, has_goal=False)["met"] == "no"


def test_a_case_tells_how_many_cores_the_broker_has() -> None:
    assert Cores(BOTH, BOTH).name() == ""
    assert Cores(ONE, OTHER).name() == ", cores apart, the broker has one"
    assert Cores(ONE, frozenset([1, 2])).name() == ", cores apart, the broker has 2"


def test_the_rounds_on_a_quiet_machine_count() -> None:
    loud = [a_round(0.2, 9.0, before=3.0), a_round(0.2, 9.0, after=3.0)]
    quiet = [a_round(0.2, 0.3), a_round(0.4, 0.9, after=0.2), a_round(0.2, 0.3)]
    one = Found(True, loud + quiet)
    assert (one.count_quiet(0.1), one.count_quiet(0.2), one.count_quiet(3.0)) == (2, 3, 5)
    row = next(one.rows("who", 3))
    assert (row[RATIO], row["rounds"]) == (pytest.approx(1.5), "3 of 5")
    assert row["at the broker"] == "0.30 (0.30 to 0.90)"

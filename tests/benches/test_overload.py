"""How a bench of overload judges what it found, on made-up figures."""

import pytest

from benches.overload import PHASES, Cores, Found

ONE, OTHER, BOTH = frozenset([0]), frozenset([1]), frozenset([0, 1])
RATIO = "ratio (<= 2)"


def found(ratio: float, memory_mb: float = 30.0, has_goal: bool = True) -> dict[str, object]:
    """The row of a first second that is so much worse at the broker than beside the sink."""
    one = Found(has_goal, alone=[0.1], memory_mb=memory_mb)
    for phase in PHASES:
        one.beside[phase].append(0.2)
        one.among[phase].append(0.2 * ratio)
    return next(one.rows("who"))


def test_the_ratio_to_the_sink_is_judged_and_the_one_to_alone_is_told() -> None:
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

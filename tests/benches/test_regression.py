"""The comparison with a baseline, on made-up figures."""

import json
from pathlib import Path
from typing import Any

import pytest

from benches.cases import regression
from benches.cases.regression import cases
from benches.cases.regression.compare import Change, compare, markdown, worse
from benches.lib.harness import BenchFailed

BASELINE = {"put": 2.0, "send": 10.0, "pull": 4.0}


def verdicts(now: dict[str, float], baseline: dict[str, float] = BASELINE) -> dict[str, str]:
    return {change.case: change.verdict for change in compare(now, baseline)}


def test_only_what_is_over_the_limit_is_worse() -> None:
    found = verdicts({"put": 2.3, "send": 11.51, "pull": 3.3})
    assert found == {"put": "same", "send": "worse", "pull": "better"}


def test_a_case_may_come_but_not_go() -> None:
    changes = compare({"put": 2.0, "send": 10.0, "scan": 1.0}, BASELINE)
    assert {change.case: change.verdict for change in changes}["scan"] == "new"
    assert [change.case for change in worse(changes)] == ["pull"]


def test_the_worst_comes_first_in_the_table() -> None:
    table = markdown(compare({"put": 2.0, "send": 20.0, "pull": 4.8}, BASELINE)).splitlines()
    assert table[2:] == [
        "| send | 10 | 20 | +100% | +15% | worse |",
        "| pull | 4 | 4.8 | +20% | +15% | worse |",
        "| put | 2 | 2 | +0% | +15% | same |",
    ]


def test_a_case_may_differ_as_much_as_it_did_in_the_baseline() -> None:
    spread = {"send": 0.3, "pull": 0.1}
    now = {"put": 2.0, "send": 12.9, "pull": 4.5}
    assert [change.verdict for change in compare(now, BASELINE, spread)] == ["same"] * 3
    now = {"put": 2.0, "send": 13.1, "pull": 4.7}
    assert [change.case for change in worse(compare(now, BASELINE, spread))] == ["send", "pull"]


def test_a_machine_twice_as_slow_changes_no_ratio() -> None:
    seconds, calibration = {"put": 4.0, "send": 20.0, "pull": 8.0}, 2.0
    ratios = {case: took / calibration for case, took in seconds.items()}
    assert set(verdicts(ratios).values()) == {"same"}


@pytest.mark.parametrize("ratio", [0.0, -1.0, float("nan")])
def test_a_ratio_of_nothing_is_no_ratio(ratio: float) -> None:
    with pytest.raises(ValueError, match="put"):
        compare({"put": ratio}, BASELINE)


def test_growth_is_unknown_for_one_figure() -> None:
    assert Change("scan", None, 1.0).grown is None


class Machine:
    """Replaces the measurement: returns one set of ratios after the other."""

    def __init__(self, *measured: dict[str, float]) -> None:
        self.measured = list(measured)
        self.asked: list[list[str]] = []

    def __call__(self, smoke: bool = False, only: Any = ()) -> dict[str, float]:
        self.asked.append(list(only))
        return self.measured.pop(0)


@pytest.fixture
def baseline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "baseline.json"
    content = {
        "environment": regression.environment(),
        "cases": BASELINE,
        "spread_percent": dict.fromkeys(BASELINE, 5.0),
    }
    path.write_text(json.dumps(content))
    monkeypatch.setattr(regression, "BASELINE", path)
    monkeypatch.setattr(regression, "_require_optimised", lambda: None)
    return path


def test_noise_is_measured_again_and_forgiven(
    baseline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine({**BASELINE, "send": 15.0}, {"send": 10.2})
    monkeypatch.setattr(regression, "measure", machine)
    regression.main()
    assert machine.asked == [[], ["send"]]


def test_what_stays_worse_fails_and_is_named(
    baseline: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine = Machine({**BASELINE, "send": 15.0}, {"send": 14.0}, {"send": 16.0})
    monkeypatch.setattr(regression, "measure", machine)
    with pytest.raises(BenchFailed, match="worse than the baseline: send"):
        regression.main()
    assert "| send | 10 | 14 | +40% | +15% | worse |" in capsys.readouterr().out


def test_a_baseline_has_the_median_and_the_spread_of_its_passes(
    baseline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = {**BASELINE, "send": 12.0}, BASELINE, {**BASELINE, "send": 11.0}
    monkeypatch.setattr(regression, "measure", Machine(*passes))
    monkeypatch.setattr(regression, "ROOT", baseline.parent)
    regression.save_baseline()
    content = json.loads(baseline.read_text())
    assert content["cases"] == {**BASELINE, "send": 11.0}
    assert content["spread_percent"] == {"put": 0.0, "send": 20.0, "pull": 0.0}


def test_passes_too_far_apart_are_no_baseline(
    baseline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = baseline.read_text()
    monkeypatch.setattr(
        regression, "measure", Machine(BASELINE, {**BASELINE, "send": 13.1}, BASELINE)
    )
    with pytest.raises(BenchFailed, match=r"not saved.*: send 31.0 %$"):
        regression.save_baseline()
    assert baseline.read_text() == before


def test_disturbed_rounds_and_good_moments_move_no_ratio() -> None:
    marks = [1.0, 1.0, 0.5, 1.0, 1.0, 8.0]
    assert cases.fourth_best([3.0, 3.0, 2.0, 3.0, 30.0, 3.0], marks) == 3.0
    assert cases.of_the_rounds([3.0, 3.0, 1.5, 3.0, 30.0, 24.0], marks) == 3.0


def test_without_a_baseline_it_says_how_to_make_one(
    baseline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    baseline.unlink()
    with pytest.raises(BenchFailed, match="--save-baseline"):
        regression.main()


def test_smoke_asks_for_a_baseline_of_every_case(
    baseline: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(regression, "measure", Machine({**BASELINE, "scan": 1.0}))
    with pytest.raises(BenchFailed, match="differ: scan"):
        regression.main(smoke=True)


def test_the_stored_baseline_is_usable() -> None:
    content = json.loads((regression.ROOT / "benches" / "baseline.json").read_text())
    assert set(verdicts(content["cases"], content["cases"]).values()) == {"same"}
    assert content["environment"]["cores"] >= 1

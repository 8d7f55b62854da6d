"""A missed goal fails a run, whichever bench it is of: after all was printed and saved."""

from pathlib import Path

import pytest

from benches.cases import store, versus_java
from benches.cases.versus_java import results
from benches.cases.versus_java.rows import Measured, Row
from benches.lib import harness
from benches.lib.harness import LARGE, SMOKE, BenchFailed, Mode, Report, saying_no
from benches.lib.rows import Rows


@pytest.fixture(autouse=True)
def saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(harness, "ROOT", tmp_path)
    monkeypatch.setattr(harness, "RESULTS", tmp_path)
    return tmp_path


def report(mode: Mode, *figures: float) -> Report:
    made = Report("goals", mode)
    rows = Rows(made)
    rows.note("seen", 1.0, "s")
    for number, figure in enumerate(figures):
        rows.judge(f"case {number}", figure, "ms", 5.0)
    return made


def test_a_missed_goal_fails_once_all_is_printed_and_saved(
    saved: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BenchFailed) as failed:
        report(LARGE, 4.0, 6.5).finish()
    assert str(failed.value) == "goals not met: case 1: figure 6.5, unit ms, goal <= 5"
    assert "| case 0 | 4 | ms | <= 5 | yes |" in capsys.readouterr().out
    assert (saved / "goals-large.json").exists()


def test_met_goals_and_none_at_all_pass() -> None:
    report(LARGE, 4.0, 5.0).finish()
    report(LARGE).finish()


def test_smoke_does_not_judge() -> None:
    report(SMOKE, 6.5).finish()


def test_a_row_is_named_by_all_that_tells_it_apart() -> None:
    made = Report("goals", LARGE, named_by=("who", "when"))
    made.rows.append({"who": "floods", "when": "first second", "ratio": 2.5, "met": "no"})
    assert made.missed() == ["floods, first second: ratio 2.5"]


def test_a_number_of_the_store_that_was_not_measured_is_missed() -> None:
    plain, least = store.Number("plain", "a", "ms"), store.Number("least", "b", "M/s", 2)
    assert plain.row({}, judge=True)["met"] == least.row({}, judge=True)["met"] == "no"
    assert plain.row({}, judge=False)["met"] == ""
    assert plain.row({"a": 9.0}, judge=True)["met"] == ""
    assert least.row({"b": 2e6}, judge=True)["met"] == "yes"
    assert least.row({"b": 1e6}, judge=True)["met"] == "no"


def test_a_process_says_what_is_missed_and_ends_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended, saying_no():
        raise BenchFailed("goals not met: a")
    assert ended.value.code == "goals not met: a"  # which Python prints, and exits 1


ROW = "native-async-1"
"""The goals of this row: p50 at most 60 us, and the faster Java's rate."""


def measured(p50_us: float | None, rate: float) -> Measured:
    ours = {"p50_us": p50_us, "messages_per_s": rate}
    return Measured({"mqstack": [ours], "java-4.9.7": [{"messages_per_s": 100.0}]})


@pytest.mark.parametrize(
    ("found", "missed"),
    [
        (measured(60.0, 100.0), []),
        (measured(61.0, 100.0), ["native-async-1: p50 µs ≤ 60: 61"]),
        (measured(None, 99.0), ["p50 µs ≤ 60: not measured", "messages/s ≥ 1 x Java's: 0.99 x"]),
    ],
)
def test_a_row_beside_java_is_judged_by_its_goals(
    found: Measured, missed: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = results.missed(versus_java.row_of(ROW), found)
    assert len(said) == len(missed)
    assert all(one.endswith(end) for one, end in zip(said, missed, strict=True))


def test_a_run_beside_java_fails_after_its_results_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(versus_java, "ROOT", tmp_path)
    for name in ("fetch", "compile_drivers"):
        monkeypatch.setattr(versus_java.java_rocketmq, name, lambda *_: None)
    rates = iter([99.0, 100.0])

    def measure(row: Row, *_: object) -> Measured:
        return measured(50.0, next(rates))

    monkeypatch.setattr(versus_java, "_measure", measure)
    with pytest.raises(BenchFailed, match=f"^goals not met: {ROW}: messages/s [^;]*$"):
        versus_java.run([ROW, ROW], home=tmp_path)
    assert (tmp_path / "RESULTS.md").exists()

"""Finds slowdowns: compares each case, relative to the machine's own speed, with a baseline.

`make bench` runs it and fails if a case is more than 15 % slower. `python -m benches
--save-baseline` measures and stores a new baseline.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from benches.cases.regression.compare import Change, Ratios, compare, markdown, worse
from benches.lib import rust_figures
from benches.lib.harness import ROOT, BenchFailed, environment
from mqcommon import _core

BASELINE = ROOT / "benches" / "baseline.json"
CASES = "benches/cases/regression/cases.py"
ATTEMPTS = 3
"""A case counts as worse only if it is worse in each of this number of measurements."""
PASSES = 3
"""A baseline is the median of this number of complete measurements."""
SPREAD_MAX = 30.0
"""Largest spread of a case over these measurements, in percent: more would hide slowdowns."""


def main(smoke: bool = False) -> None:
    """Compare with the baseline; raises BenchFailed with the names of the cases that are worse."""
    if smoke:
        _check_names(measure(smoke=True))
        return
    _require_optimised()
    baseline, spread = _baseline()
    print(f"measuring {len(baseline)} cases, about half a minute", flush=True)
    now = measure()
    for _ in range(ATTEMPTS - 1):
        slow = [
            change.case
            for change in worse(compare(now, baseline, spread))
            if change.now is not None
        ]
        if not slow:
            break
        print(f"over the limit, measuring again: {', '.join(slow)}", flush=True)
        again = measure(only=slow)
        now |= {case: min(now[case], ratio) for case, ratio in again.items()}
    changes = compare(now, baseline, spread)
    print(markdown(changes))
    _judge(changes)


def save_baseline() -> None:
    """Measure and store a baseline. Commit the file with the change that moves the figures."""
    _require_optimised()
    passes = [measure() for _ in range(PASSES)]
    cases = {case: round(statistics.median(one[case] for one in passes), 4) for case in passes[0]}
    spread = {case: _spread([one[case] for one in passes]) for case in passes[0]}
    if wide := [f"{case} {percent} %" for case, percent in spread.items() if percent > SPREAD_MAX]:
        raise BenchFailed(f"not saved, the passes differ too much: {', '.join(wide)}")
    content = {"environment": environment(), "cases": cases, "spread_percent": spread}
    BASELINE.write_text(json.dumps(content, indent=1) + "\n")
    print(f"{len(cases)} cases in {BASELINE.relative_to(ROOT)}")


def measure(smoke: bool = False, only: Sequence[str] = ()) -> Ratios:
    """Each case's time divided by its calibration's time, for all cases or the named ones."""
    with tempfile.TemporaryDirectory(prefix="mqbench-") as folder:
        path = Path(folder) / "cases.json"
        chosen = [f"{CASES}::test_{case}" for case in only] or [CASES]
        options = [f"--basetemp={folder}/pytest", f"--benchmark-json={path}", "--benchmark-quiet"]
        options += ["--benchmark-disable-gc"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "--timeout=300", *options, *chosen],
            cwd=ROOT,
            env={**os.environ, "MQSTACK_BENCH_SMOKE": "1" if smoke else ""},
            capture_output=True,
            text=True,
            preexec_fn=_one_core,
        )
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        cases: Iterable[dict[str, Any]] = json.loads(path.read_text())["benchmarks"]
        return {one["name"].removeprefix("test_"): one["extra_info"]["ratio"] for one in cases}


def _baseline() -> tuple[Ratios, dict[str, float]]:
    """The ratios of the baseline, and their spread as a fraction."""
    if not BASELINE.exists():
        raise BenchFailed("no baseline; first: python -m benches --save-baseline")
    content = json.loads(BASELINE.read_text())
    there, here = content["environment"], environment()
    if any(there[name] != here[name] for name in ("cpu", "cores")):
        print(f"The baseline was measured on another machine: {there['cores']} x {there['cpu']}")
    spread = {case: percent / 100 for case, percent in content["spread_percent"].items()}
    return content["cases"], spread


def _check_names(now: Ratios) -> None:
    """Fail if a case has no baseline, because it would never be compared."""
    known, _ = _baseline()
    if unlike := sorted(now.keys() ^ known.keys()):
        raise BenchFailed(f"cases and baseline differ: {', '.join(unlike)}; save a baseline")


def _judge(changes: list[Change]) -> None:
    if bad := worse(changes):
        names = ", ".join(change.case for change in bad)
        accept = "to accept that, save a new baseline: python -m benches --save-baseline"
        raise BenchFailed(f"worse than the baseline: {names}; {accept}")


def _one_core() -> None:
    """Pin this process and its children to one core.

    A round trip takes 13 us within a core and 55 us across cores, depending on the scheduler.
    """
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _require_optimised() -> None:
    if not _core.OPTIMISED:
        build = f"maturin develop --skip-install --profile {rust_figures.PROFILE}"
        raise BenchFailed(f"mqcommon._core is a development build; first: {build}")


def _spread(ratios: Sequence[float]) -> float:
    return round((max(ratios) / min(ratios) - 1) * 100, 1)

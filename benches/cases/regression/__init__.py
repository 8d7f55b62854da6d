"""Is anything slower than it was? Ratios to this machine's own speed, beside a stored baseline.

`make bench` runs it and fails where a case is over 15 % worse; `python -m benches --save-baseline`
stores what is measured now as what later runs are compared with.
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
from mqstore import _core

BASELINE = ROOT / "benches" / "baseline.json"
CASES = "benches/cases/regression/cases.py"
ATTEMPTS = 3
"""A case counts as worse when it is in each of so many measurements."""
PASSES = 3
"""Whole measurements that a baseline is the median of."""
SPREAD_MAX = 30.0
"""Percent that a case may differ by among them: more would hide what the run is to find."""


def main(smoke: bool = False) -> None:
    """Compare with the baseline; raises BenchFailed, naming the cases, where some are worse."""
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
        print(f"measuring again, as over the limit: {', '.join(slow)}", flush=True)
        again = measure(only=slow)
        now |= {case: min(now[case], ratio) for case, ratio in again.items()}
    changes = compare(now, baseline, spread)
    print(markdown(changes))
    _judge(changes)


def save_baseline() -> None:
    """Measure and store; the file belongs into the change that moves the figures."""
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
    """Each case's time over its calibration's; all cases, or those named."""
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
    """Its ratios, and their spread as a share."""
    if not BASELINE.exists():
        raise BenchFailed("no baseline; first: python -m benches --save-baseline")
    content = json.loads(BASELINE.read_text())
    there, here = content["environment"], environment()
    if any(there[name] != here[name] for name in ("cpu", "cores")):
        print(f"The baseline is of another machine: {there['cores']} x {there['cpu']}")
    spread = {case: percent / 100 for case, percent in content["spread_percent"].items()}
    return content["cases"], spread


def _check_names(now: Ratios) -> None:
    """A case without a baseline would never be compared."""
    known, _ = _baseline()
    if unlike := sorted(now.keys() ^ known.keys()):
        raise BenchFailed(f"cases and baseline differ: {', '.join(unlike)}; save a baseline")


def _judge(changes: list[Change]) -> None:
    if bad := worse(changes):
        names = ", ".join(change.case for change in bad)
        anew = "if that is meant, a new baseline: python -m benches --save-baseline"
        raise BenchFailed(f"worse than the baseline: {names}; {anew}")


def _one_core() -> None:
    """For all: a round trip takes 13 us within a core, 55 across, as the scheduler happens to."""
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def _require_optimised() -> None:
    if not _core.OPTIMISED:
        build = f"maturin develop --skip-install --profile {rust_figures.PROFILE}"
        raise BenchFailed(f"mqstore._core is a development build; first: {build}")


def _spread(ratios: Sequence[float]) -> float:
    return round((max(ratios) / min(ratios) - 1) * 100, 1)

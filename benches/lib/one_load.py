"""Runs one load in a process of its own, so that no load inherits another one's memory or threads.

`python -m benches.lib.one_load MODULE CASE ADDRESS COUNT [COPY]` prints the figures as a JSON line.
COPY is the folder of another copy of the project, whose packages the load imports.
"""

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

from benches.lib.harness import ROOT, BenchFailed
from benches.lib.measured import Figures

CASE_SECONDS_MAX = 200.0


def run_load(
    module: str,
    case: str,
    address: str,
    count: int,
    *,
    copy: Path = ROOT,
    packages: Path | None = None,
) -> Figures:
    """The figures of a case of `benches.lib.<module>`; raises BenchFailed if it fails.

    packages: folder of additional Python packages.
    """
    paths = {} if packages is None else {"PYTHONPATH": str(packages)}
    who = f"{module} {case} with {copy}"
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__, module, case, address, str(count), str(copy)],
            cwd=ROOT,
            env={**os.environ, **paths},
            stdout=subprocess.PIPE,
            timeout=CASE_SECONDS_MAX,
            text=True,
        )
    except subprocess.TimeoutExpired as error:
        raise BenchFailed(f"{who} did not end in {CASE_SECONDS_MAX:.0f} s") from error
    if done.returncode:
        raise BenchFailed(f"{who} ended with exit code {done.returncode}")
    figures: Figures = json.loads(done.stdout)
    return figures


def main() -> None:
    """Run one case and print its figures."""
    module, case, address, count, copy = sys.argv[1:]
    sys.path[0] = copy  # the benches are imported already: from here on, only packages are
    load = importlib.import_module(f"benches.lib.{module}").CASES[case]
    print(json.dumps(load(address, int(count))))


if __name__ == "__main__":
    main()

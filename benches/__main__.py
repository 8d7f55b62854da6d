"""Run all benches, or the named ones. Fails if a bench fails or, at full size, misses a goal.

With `--smoke` two benches run at a time: the figures do not count, and most of the time goes into
starting servers.
"""

import argparse
import importlib
import subprocess
import sys
import time
import traceback
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benches.lib.harness import ROOT, BenchFailed, saying_no

SMOKES_AT_ONCE = 2

NAMES = (
    "store",
    "start",
    "end_to_end",
    "python_client",
    "client_cases",
    "client_costs",
    "operators",
    "scale",
    "flat",
    "sustained",
    "names",
    "overload",
    "transactions",
    "replication",
    "spark",
    "spark_costs",
    "regression",
    "versus_java",
)
BY_HAND = ("peers",)
"""Benches that run only when they are named: they need what no step of the build installs."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benches", description=__doc__)
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"benches to run, default all: {', '.join(NAMES)}; only when named: {BY_HAND[0]}",
    )
    parser.add_argument(
        "--smoke", action="store_true", help="run each for seconds, only to see that it works"
    )
    parser.add_argument(
        "--save-baseline", action="store_true", help="measure a new baseline for `make bench`"
    )
    arguments = parser.parse_args()
    if arguments.save_baseline:
        with saying_no():
            importlib.import_module("benches.cases.regression").save_baseline()
        return 0
    known = (*NAMES, *BY_HAND)
    if unknown := [name for name in arguments.names if name not in known]:
        parser.error(f"no such bench: {', '.join(unknown)}; one of {', '.join(known)}")
    names = arguments.names or NAMES
    alone = len(names) == 1 or not arguments.smoke
    failed = [name for name in names if not run(name, arguments.smoke)] if alone else smoke(names)
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


def run(name: str, smoke: bool) -> bool:
    """Run one bench and print its report; True if it ran and met its goals."""
    started = time.monotonic()
    print(f"== {name}", flush=True)
    try:
        importlib.import_module(f"benches.cases.{name}").main(smoke=smoke)
        return True
    except BenchFailed as reason:
        print(reason, file=sys.stderr)
    except Exception:
        traceback.print_exc()
    finally:
        print(f"== {name}: {time.monotonic() - started:.1f} s\n", flush=True)
    return False


def smoke(names: Sequence[str]) -> list[str]:
    """Run each bench in its own process, two at a time; returns the names of the failed ones."""

    def ran(name: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "benches", "--smoke", name],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    failed = []
    with ThreadPoolExecutor(SMOKES_AT_ONCE) as pool:
        for name, done in zip(names, pool.map(ran, names), strict=True):
            print(done.stdout, end="", flush=True)
            if done.returncode != 0:
                failed.append(name)
    return failed


if __name__ == "__main__":
    sys.exit(main())

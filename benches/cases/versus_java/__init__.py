"""The same loads against our servers and against Java RocketMQ 4.9.7 and 5.3.3, on this machine.

`python -m benches versus_java` runs every row and takes 45 minutes; `python -m
benches.cases.versus_java --only ROW` runs one row and keeps the results of the others. Needs JDK
17, and Maven to download RocketMQ once.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benches.cases.versus_java import results
from benches.cases.versus_java.rows import KINDS, Measured, Row, Session
from benches.cases.versus_java.table import ROWS
from benches.lib.harness import RESULTS, ROOT, fail_if_missed
from benches.lib.servers import Cluster, Java, Ours
from scripts import java_rocketmq

ROUNDS = 5
SECONDS = 4.0
WARMUP_SECONDS = 2.0
SCRATCH = RESULTS / "versus_java"
"""Folder for results that are not committed."""
SMOKE = (0.2, 0.1, 1)
"""Seconds of a round, seconds of a warm-up run, number of rounds."""


def main(smoke: bool = False) -> None:
    """Run every row, or a few small ones. Without Java, prints the reason and runs none."""
    if smoke:
        run_smoke()
        return
    missing = java_rocketmq.missing(java_rocketmq.VERSUS)
    if missing:
        print(f"skipped, {missing}")
        return
    run([row.name for row in ROWS])


def run(
    names: Sequence[str],
    rounds: int = ROUNDS,
    seconds: float = SECONDS,
    warmup_seconds: float = WARMUP_SECONDS,
    home: Path = results.HERE,
) -> None:
    """Measure these rows, save their results, and write RESULTS.md from the results of all rows.

    Fails at the end if one of these rows misses a goal.
    """
    java_rocketmq.fetch()
    java_rocketmq.fetch(java_rocketmq.VERSUS)
    java_rocketmq.compile_drivers(java_rocketmq.VERSUS)
    missed = []
    for row in map(row_of, names):
        measured = _measure(row, home, (seconds, warmup_seconds, rounds))
        missed += results.missed(row, measured)
    print(f"written to {results.write(ROWS, home).relative_to(ROOT)}")
    fail_if_missed(missed)


def run_smoke() -> None:
    """Run one small row of ours alone and one with a Java broker; results go into artifacts."""
    _measure(row_of("routes-4"), SCRATCH, SMOKE, (Ours,))
    if missing := java_rocketmq.missing():
        print(f"Java is skipped, {missing}")
    else:
        _measure(row_of("java-open-loop"), SCRATCH, SMOKE, (Ours, Java))
    print(f"written to {results.write(ROWS, SCRATCH).relative_to(ROOT)}")


def row_of(name: str) -> Row:
    """The row with this name; raises ValueError, listing the known names."""
    found = next((row for row in ROWS if row.name == name), None)
    if found is None:
        raise ValueError(f"no row {name!r}; rows: {', '.join(row.name for row in ROWS)}")
    return found


def _measure(
    row: Row,
    home: Path,
    lengths: tuple[float, float, int],
    kinds: tuple[type[Cluster], ...] = KINDS,
) -> Measured:
    folder = Path(tempfile.mkdtemp(prefix="mqbench-"))
    session = Session(folder, *lengths, kinds)
    try:
        measured = row.how.run(session)
    finally:
        session.stop()
        shutil.rmtree(folder)
    results.keep(row, session, measured, home)
    print(results.summary(row, measured), flush=True)
    return measured

"""The same loads against Java RocketMQ 4.9.7 and 5.3.3 and against us, on this machine.

`python -m benches versus_java` runs every row, 45 minutes; `python -m benches.cases.versus_java
--only ROW` one of them and keeps the others' results. Needs JDK 17 and Maven, which fetches
RocketMQ once.
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
"""Where results go that are not for keeping."""
SMOKE = (0.2, 0.1, 1)
"""Seconds of a round and of a warm-up run, rounds."""


def main(smoke: bool = False) -> None:
    """Run every row, or a few small ones; says why if Java is not here."""
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
    """Measure these rows, keep their results beside those of the others, and write RESULTS.md.

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
    """A small row of ours alone, one of ours beside a Java broker; results go into artifacts."""
    _measure(row_of("routes-4"), SCRATCH, SMOKE, (Ours,))
    if missing := java_rocketmq.missing():
        print(f"Java is skipped, {missing}")
    else:
        _measure(row_of("java-open-loop"), SCRATCH, SMOKE, (Ours, Java))
    print(f"written to {results.write(ROWS, SCRATCH).relative_to(ROOT)}")


def row_of(name: str) -> Row:
    """Raises ValueError with the names there are."""
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

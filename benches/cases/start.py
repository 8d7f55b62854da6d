"""CPU time of opening a store with many queues: after a clean stop, and after a kill.

Each open is a process of its own. Its CPU time has all threads of the store, from before
`Store(...)` until it returns, without the start of Python.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benches.lib.harness import Report, mode_of
from benches.lib.rows import Rows
from mqstore import Settings, Store

TOPICS = {"smoke": 20, "large": 5_000}
QUEUES = 8
CLEAN_CPU_S_MAX, KILLED_CPU_S_MAX = 0.5, 1.0
METHOD = (
    "median of rounds; 5,000 topics of 8 queues with a message each; a kill is SIGKILL's end: the "
    "process leaves without closing its store"
)


def main(smoke: bool = False) -> None:
    """Fill a store, open it in both ways, and print the table."""
    mode = mode_of(smoke)
    report = Report("start", mode, METHOD)
    rows = Rows(report)
    with tempfile.TemporaryDirectory(prefix="mqbench-") as folder:
        filled = Path(folder) / "filled"
        _run("fill", filled, TOPICS[mode.name])
        clean = [_opened(filled) for _ in range(mode.rounds)]
        killed = []
        for _ in range(mode.rounds):
            _run("leave", filled, 0)
            killed.append(_opened(filled))
    for what, opens, most in (
        ("after a clean stop", clean, CLEAN_CPU_S_MAX),
        ("after a kill", killed, KILLED_CPU_S_MAX),
    ):
        cpu, wall = (statistics.median(figures) for figures in zip(*opens, strict=True))
        rows.judge(f"open with 40,000 queues {what}, CPU", cpu, "s", most, False)
        rows.note(f"open with 40,000 queues {what}, wall time", wall, "s")
    report.finish()


def _opened(store: Path) -> tuple[float, float]:
    """CPU and wall seconds of opening a store, which is closed afterwards."""
    cpu, wall = json.loads(_run("open", store, 0))
    return cpu, wall


def _run(step: str, store: Path, topics: int) -> str:
    words = [sys.executable, "-m", "benches.cases.start", step, str(store), str(topics)]
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def _settings() -> Settings:
    return Settings(commit_log_file_bytes=8 << 20, index_slots=10_000, index_entries=100_000)


def _fill(path: str, topics: int) -> None:
    """Put a message into each queue."""
    with Store(path, _settings(), create=True) as store:
        for topic in range(topics):
            for queue_id in range(QUEUES):
                store.put(f"Topic-{topic}", b"body", queue_id=queue_id, wait_store_ok=False)


def _leave(path: str, _topics: int) -> None:
    """Put a message and end the process without closing the store."""
    store = Store(path, _settings())
    store.put("Topic-0", b"body")
    store.flush()
    os._exit(0)


def _open(path: str, _topics: int) -> None:
    """Open the store, and print the seconds that it took."""
    began, before = time.monotonic(), _cpu_s()
    store = Store(path, _settings())
    print(json.dumps([_cpu_s() - before, time.monotonic() - began]))
    store.close()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    {"fill": _fill, "leave": _leave, "open": _open}[sys.argv[1]](sys.argv[2], int(sys.argv[3]))

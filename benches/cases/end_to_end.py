"""Loads our NameServer and broker, as processes, with the load generator of `mqclient bench`."""

import shutil
import tempfile
import time
from pathlib import Path

from benches.lib.harness import Mode, Report, mode_of
from benches.lib.loads import ASYNC_FLUSH, SYNC_FLUSH, Case, make_backlog, measure
from benches.lib.servers import Ours

BACKLOG_MESSAGES = {"smoke": 2_000, "large": 500_000}


def main(smoke: bool = False) -> None:
    """Run every case and print the table."""
    mode = mode_of(smoke)
    report = Report("end_to_end", mode)
    _run(report, mode, "ASYNC_FLUSH", ASYNC_FLUSH)
    _run(report, mode, "SYNC_FLUSH", SYNC_FLUSH)
    report.finish()


def _run(report: Report, mode: Mode, flush: str, cases: tuple[Case, ...]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="mqbench-"))
    try:
        started = time.monotonic()
        with Ours(folder / "ours", {"flushDiskType": flush}) as cluster:
            start_ms = (time.monotonic() - started) * 1000
            idle = {"start_ms": start_ms, "anonymous_mb": cluster.cost.anonymous_mb()}
            report.add(f"start both, {flush}", [idle])
            if any(case.consume for case in cases):
                make_backlog(cluster, BACKLOG_MESSAGES[mode.name])
            for case in cases:
                case.run(cluster, mode.warmup_seconds)
                rounds = [measure(case, cluster, mode.seconds) for _ in range(mode.rounds)]
                report.add(case.name, rounds)
    finally:
        shutil.rmtree(folder)

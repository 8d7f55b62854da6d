"""The same loads against Java RocketMQ 4.9.7 and against us, side by side on this machine.

Both clusters are up; each case runs its rounds in turn (ours, Java, ours, ...), so that a noisy
machine is noisy for both. Needs JDK 17 and Maven, which fetches RocketMQ once.
"""

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benches.cases import ASYNC_FLUSH, SYNC_FLUSH, Case, make_backlog, measure
from benches.harness import Mode, Report, mode_of
from benches.servers import Cluster, Java, Ours
from scripts import java_rocketmq

BACKLOG_MESSAGES = {"smoke": 1_000, "large": 300_000}


def main(smoke: bool = False) -> None:
    """Run every case against both and print the table; says why if Java is not here."""
    mode = mode_of(smoke)
    missing = java_rocketmq.missing()
    if missing:
        print(f"skipped, {missing}")
        return
    java_rocketmq.fetch()
    report = Report("versus_java", mode)
    _run(report, mode, "ASYNC_FLUSH", ASYNC_FLUSH)
    if not smoke:  # two JVMs more would not fit a smoke run's time
        _run(report, mode, "SYNC_FLUSH", SYNC_FLUSH)
    report.finish()


def _run(report: Report, mode: Mode, flush: str, cases: tuple[Case, ...]) -> None:
    folder = Path(tempfile.mkdtemp(prefix="mqbench-"))
    settings = {"flushDiskType": flush}
    try:
        with ExitStack() as stack:
            ours: Cluster = stack.enter_context(Ours(folder / "ours", settings))
            java: Cluster = stack.enter_context(Java(folder / "java", settings))
            for cluster in (ours, java):
                idle = {"anonymous_mb": cluster.cost.anonymous_mb()}
                report.add(f"idle, {flush}", [idle], server=cluster.name)
                if any(case.consume for case in cases):
                    make_backlog(cluster, BACKLOG_MESSAGES[mode.name])
            for case in cases:
                _compare(report, mode, case, (ours, java))
    finally:
        shutil.rmtree(folder)


def _compare(report: Report, mode: Mode, case: Case, clusters: tuple[Cluster, Cluster]) -> None:
    for cluster in clusters:
        case.run(cluster, mode.warmup_seconds)
    rounds = [[measure(case, cluster, mode) for cluster in clusters] for _ in range(mode.rounds)]
    rows = [
        report.add(case.name, figures, server=cluster.name)
        for cluster, figures in zip(clusters, zip(*rounds, strict=True), strict=True)
    ]
    rows[0]["times_java"] = rows[0]["messages_per_s"] / rows[1]["messages_per_s"]

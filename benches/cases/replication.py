"""Masters with a slave: SYNC_MASTER beside ASYNC_MASTER and Java's, catching up, an idle pair.

Java's part needs JDK 17, and Maven to download RocketMQ once; without it, or in a smoke run, it is
left out.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from benches.lib.harness import Mode, Report, check_room, mode_of, touch_memory
from benches.lib.java_client import JavaClient, JavaSend
from benches.lib.loads import Case, Loads, make_backlog
from benches.lib.pairs import LEVEL_SECONDS_MAX, Pair, catch_up
from benches.lib.rows import Rows
from benches.lib.servers import Java, Ours
from scripts import java_rocketmq

SYNC, ASYNC, JAVA = "SYNC_MASTER", "ASYNC_MASTER", "Java's SYNC_MASTER"
NATIVE_64 = Case("native client, 64 in flight", produce={"in_flight": 64})
NATIVE_1 = Case("native client, 1 sender")
OF_ASYNC_MIN, OF_JAVA_MIN, OF_CP_MIN = 0.7, 1.5, 0.7
IDLE_PERCENT_MAX = 0.5
LOG_MIB = {"smoke": 16, "large": 2_048}
"""Size of the log that a new slave copies."""
FILE_BYTES = {"smoke": 4 << 20, "large": 128 << 20}
RECORD_BYTES = 1_280
"""About the size of a 1 KiB message's record."""
IDLE_SECONDS = {"smoke": 0.5, "large": 60.0}
SETTLE_SECONDS = {"smoke": 0.1, "large": 10.0}
"""Pause before the idle pair is measured: work of the load has ended."""
SECONDS_MIN = 0.5
"""Shortest load: one that a busy disk may not stop from its begin to its end."""
ROOM_BYTES = 24 << 30
METHOD = (
    "median of rounds in turns; messages of 1 KiB; ratios are medians of the ratios of a round; a "
    "pair is a master, its slave and a NameServer on one machine; cp copies the files of the log "
    "that a new slave copies through the master"
)
Round = dict[str, Any]


def main(smoke: bool = False) -> None:
    """Run all rows and print them."""
    mode = mode_of(smoke)
    report = Report("replication", mode, METHOD)
    with tempfile.TemporaryDirectory(prefix="mqbench-") as scratch:
        if not smoke:
            check_room(scratch, ROOM_BYTES)
        _under_load(report, mode, Path(scratch))
        _catching_up(Rows(report), mode, Path(scratch) / "catch-up")
    report.finish()


def _under_load(report: Report, mode: Mode, scratch: Path) -> None:
    rows = Rows(report)
    with ExitStack() as stack:
        ours = [
            stack.enter_context(Pair(role, Ours, scratch / role, role)) for role in (SYNC, ASYNC)
        ]
        _idle(rows, mode, ours[0])
        rounds = _turns(mode, NATIVE_64, ours)
        _note(report, NATIVE_64.name, rounds)
        ratio = _ratio(rounds[SYNC], rounds[ASYNC])
        rows.judge(f"{SYNC} beside {ASYNC}", ratio, "x", OF_ASYNC_MIN, least=True)
        _note(report, NATIVE_1.name, _turns(mode, NATIVE_1, ours))
        if mode.judges and java_rocketmq.missing(java_rocketmq.VERSUS) is None:
            _beside_java(report, mode, ours[0], scratch)


def _beside_java(report: Report, mode: Mode, ours: Pair, scratch: Path) -> None:
    java_rocketmq.fetch()
    java_rocketmq.compile_drivers(java_rocketmq.VERSUS)
    home = scratch / "java-client"
    home.mkdir()
    with Pair(JAVA, Java, scratch / "java", SYNC) as javas, _java_client(home) as client:
        pairs = [ours, javas]
        java_64 = JavaSend(client, threads=64)
        for _ in range(mode.rounds):  # the JVMs compile meanwhile
            NATIVE_64.run(javas.cluster, mode.warmup_seconds)
            java_64.run(ours.cluster, mode.warmup_seconds)
        _note(report, NATIVE_64.name, {JAVA: [javas.measure(NATIVE_64, mode.seconds)]})
        rounds = _turns(mode, java_64, pairs)
        _note(report, "Java client, 64 threads", rounds)
        ratio = _ratio(rounds[SYNC], rounds[JAVA])
        Rows(report).judge(
            f"{SYNC} beside Java's, Java client", ratio, "x", OF_JAVA_MIN, least=True
        )
        _note(report, "Java client, 1 sender", _turns(mode, JavaSend(client), pairs))


@contextmanager
def _java_client(home: Path) -> Iterator[JavaClient]:
    client = JavaClient(home)
    try:
        yield client
    finally:
        client.kill()


def _turns(mode: Mode, load: Loads, pairs: Sequence[Pair]) -> dict[str, list[Round]]:
    """The rounds of each pair, in turns after a warm-up."""
    for pair in pairs:
        load.run(pair.cluster, max(mode.warmup_seconds, SECONDS_MIN))
    taken: dict[str, list[Round]] = {pair.name: [] for pair in pairs}
    for _ in range(mode.rounds):
        for pair in pairs:
            taken[pair.name].append(pair.measure(load, max(mode.seconds, SECONDS_MIN)))
    return taken


def _note(report: Report, load: str, rounds: dict[str, list[Round]]) -> None:
    for pair, of_pair in rounds.items():
        report.add(f"{pair}, {load}", of_pair)


def _ratio(ours: list[Round], others: list[Round]) -> float:
    figure = "messages_per_s"
    return statistics.median(
        one[figure] / other[figure] for one, other in zip(ours, others, strict=True)
    )


def _idle(rows: Rows, mode: Mode, pair: Pair) -> None:
    time.sleep(SETTLE_SECONDS[mode.name])
    seconds = IDLE_SECONDS[mode.name]
    costs = {"master": pair.cluster.cost, "slave": pair.slave.cost}
    before = {name: sum(cost.cpu_of_threads().values()) for name, cost in costs.items()}
    time.sleep(seconds)
    share = {
        name: (sum(cost.cpu_of_threads().values()) - before[name]) / seconds * 100
        for name, cost in costs.items()
    }
    for name, percent in share.items():
        rows.note(f"idle {name}", percent, "% of a core")
    rows.judge("idle pair", sum(share.values()), "% of a core", IDLE_PERCENT_MAX)


def _catching_up(rows: Rows, mode: Mode, folder: Path) -> None:
    settings = {"mappedFileSizeCommitLog": FILE_BYTES[mode.name]}
    megabytes = LOG_MIB[mode.name] * (1 << 20) / 1e6
    slave, copy = [], []
    with Ours(folder, settings) as cluster:
        make_backlog(cluster, (LOG_MIB[mode.name] << 20) // RECORD_BYTES)
        log = folder / "store" / "commitlog"
        for _ in range(mode.rounds):
            for taken, turn in ((copy, lambda: _cp(log)), (slave, lambda: _copied(cluster))):
                os.sync()
                touch_memory(LOG_MIB[mode.name] << 20)
                taken.append(megabytes / turn())
    rows.note("cp of the log", statistics.median(copy), "MB/s")
    rows.note("a new slave", statistics.median(slave), "MB/s")
    ratio = statistics.median(one / other for one, other in zip(slave, copy, strict=True))
    rows.judge("a new slave beside cp", ratio, "x", OF_CP_MIN, least=True)


def _copied(cluster: Ours) -> float:
    seconds = catch_up(cluster, {"haFullCopy": "true"})
    for folder in cluster.folder.glob("slave-*"):
        shutil.rmtree(folder)
    return seconds


def _cp(log: Path) -> float:
    """Seconds of cp of the log's files."""
    target = log.parent / "copy"
    began = time.monotonic()
    subprocess.run(["cp", "-r", log, target], check=True, timeout=LEVEL_SECONDS_MAX)
    taken = time.monotonic() - began
    shutil.rmtree(target)
    return taken

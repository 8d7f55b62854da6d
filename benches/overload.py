"""Clients that do not read, that dribble, that ask for too much: what others notice of them.

A healthy client sends at a rate that leaves the machine idle, in turns: alone, beside the trouble
sent to a process that takes everything and answers nothing, and beside the same trouble sent to
its own broker. Generator, sink and broker share the machine, so the broker is judged by the last
against the middle one: what it adds to being beside such a generator.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from benches.cases import make_backlog
from benches.crowd import allow_files
from benches.harness import ROOT, Report, command_line, mode_of
from benches.scale import Rows, broker_of
from benches.servers import Ours
from benches.trouble import SINK
from mqclient.cli.bench import run_produce
from tests.interop.processes import ServerProcess

ANONYMOUS_MB_MAX = 512.0
P99_RATIO_MAX = 2.0
RATE = 500.0
"""Messages per second of the healthy client."""
ANSWER_SECONDS_MAX = 30.0
METHOD = (
    "medians over rounds in turns; `mqclient bench` sends 500/s beside a process that misbehaves"
)


@dataclass(frozen=True)
class Size:
    """How many misbehave, and for how many seconds."""

    counts: dict[str, int]
    backlog: int
    seconds: float
    rounds: int


LARGE = Size(
    {
        "stopped-readers": 1_000,
        "slow-senders": 5_000,
        "floods": 200,
        "slow-floods": 200,
        "half-frames": 400,
    },
    backlog=20_000,
    seconds=2.0,
    rounds=5,
)
SMALL = Size(
    {"stopped-readers": 20, "slow-senders": 50, "floods": 5, "slow-floods": 5, "half-frames": 5},
    backlog=500,
    seconds=0.3,
    rounds=1,
)


class Trouble:
    """A process of benches.trouble that is at it while the `with` block lasts.

    done: afterwards, what it did.
    """

    def __init__(self, kind: str, address: str, count: int) -> None:
        arguments = ["-m", "benches.trouble", kind, address, str(count)]
        self.done: dict[str, int] = {}
        self._process = ServerProcess([sys.executable, *arguments], cwd=ROOT, ready="ready")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self._process.write_line("end")
            self.done = json.loads(self._process.await_line("{", ANSWER_SECONDS_MAX))
        finally:
            self._process.stop()


class Sink:
    """Takes everything and answers nothing, while the `with` block lasts."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "benches.trouble", SINK]
        self._process = ServerProcess(command, cwd=ROOT, ready="ready")
        port = self._process.await_line("ready").split()[1]
        self.address = f"127.0.0.1:{port}"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._process.stop()


class Peak:
    """The most anonymous memory that a broker had during the `with` block."""

    def __init__(self, cluster: Ours) -> None:
        self.megabytes = 0.0
        self._cost = cluster.cost
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            self.megabytes = max(self.megabytes, self._cost.anonymous_mb())

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()


def main(smoke: bool = False) -> None:
    """Run every kind of overload, and print what it does to memory and to a healthy client."""
    size = SMALL if smoke else LARGE
    report = Report("overload", mode_of(smoke), METHOD)
    rows = Rows(report)
    allow_files()
    with (
        tempfile.TemporaryDirectory(prefix="mqbench-") as folder,
        Ours(Path(folder) / "ours", {}) as cluster,
    ):
        make_backlog(cluster, size.backlog)
        _p99(cluster, size.seconds)
        for kind, count in size.counts.items():
            _measure(cluster, kind, count, size, rows)
    report.finish()


def _measure(cluster: Ours, kind: str, count: int, size: Size, rows: Rows) -> None:
    alone, beside, among = [], [], []
    memory, busy, closed = 0.0, 0, 0
    for _ in range(size.rounds):
        alone.append(_p99(cluster, size.seconds))
        with Sink() as sink, Trouble(kind, sink.address, count):
            beside.append(_p99(cluster, size.seconds))
        trouble = Trouble(kind, broker_of(cluster), count)
        with Peak(cluster) as peak, trouble:
            among.append(_p99(cluster, size.seconds))
        memory = max(memory, peak.megabytes)
        busy += trouble.done["answered_busy"]
        closed += trouble.done["closed"]
    name = f"{count:,} {kind}"
    rows.note(f"p99 alone, {name}", statistics.median(alone), "us")
    rows.note(f"p99 beside the generator, {name}", statistics.median(beside), "us")
    ratio = statistics.median(among) / statistics.median(beside)
    rows.judge(f"p99 among them, {name}", ratio, "x beside", P99_RATIO_MAX)
    rows.judge(f"anonymous memory, {name}", memory, "MB", ANONYMOUS_MB_MAX)
    rows.note(f"answered busy, {name}", busy, "requests")
    rows.note(f"closed by the broker, {name}", closed, "connections")


def _p99(cluster: Ours, seconds: float) -> float:
    load: dict[str, object] = {"namesrv": cluster.namesrv, "topic": "Healthy", "warmup_s": 0.1}
    report = run_produce({**load, "duration_s": seconds}, rate=RATE)
    for problem in report["problems"]:
        print(problem, file=sys.stderr)
    return float(report["latency_us"]["p99"])


if __name__ == "__main__":
    command_line(main)

"""How much a healthy client suffers from clients that do not read, send slowly, or flood.

A healthy client sends at a rate that leaves the machine almost idle, in three situations: alone;
while the misbehaving clients load a sink, which reads everything and answers nothing; and while
they load the healthy client's own broker. Load generator, sink and broker share the machine, so the
broker is judged by its ratio to the sink, which has the same load from the generator. The ratio to
being alone has no goal, because it depends as much on the machine. The first second of the
misbehaviour and the time after it are separate figures. Sink and broker change their order each
round.

Other virtual machines of the host sometimes take the cores away for longer than a request lasts.
Therefore rounds are repeated, up to a limit, until enough of them had a quiet machine: the healthy
client alone is measured before and after each round. Only the quietest rounds count, whatever their
result.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from benches.lib.harness import ROOT, Report, mode_of, touch_memory, verdict
from benches.lib.loads import make_backlog, settle
from benches.lib.servers import Ours, broker_of
from benches.lib.trouble import SINK
from mqclient.cli.bench import run_produce
from mqserver.commands.command_runtime import allow_open_files
from scripts.server_process import ServerProcess

ANONYMOUS_MB_MAX = 512.0
P99_RATIO_MAX = 2.0
RATE = 970.0
"""Messages per second of the healthy client. Not 1,000: sends would then hit the generator's steps
and the broker's timers at the same part of each millisecond for a whole round."""
QUIET_RATIO_MAX = 2.0
"""A round is quiet if the client's p99 alone is at most this multiple of the lowest one so far."""
WARMUP_SECONDS = 0.1
LEAD_SECONDS = 0.15
"""Seconds from the healthy client's start to the start of the misbehaviour."""
ANSWER_SECONDS_MAX = 30.0
METHOD = (
    "p99 of `mqclient bench` at 970/s, ms: median (least to most) of the quietest rounds; "
    "ratio: at the broker to beside the sink; to alone: at the broker to alone"
)
START, STEADY = PHASES = ("its first second", "after it")


@dataclass(frozen=True)
class Size:
    """The amounts of one run.

    counts: number of misbehaving clients of each kind. start_seconds, steady_seconds: length of the
    first phase and of the time after it. rounds: number of quiet rounds that count; at most
    `rounds_max` rounds are run to find them. touched_bytes: memory made available before each
    measurement, for what the broker and the kernel may use. apart: kinds that are measured a second
    time with the generator on one core and the broker or the sink on the others, as if the
    generator were another machine. limits: kinds of `apart` that have no goal for the ratio if the
    broker has only one core, because the Python code that handles the misbehaving clients and the
    healthy client's requests then wait for each other.
    """

    counts: dict[str, int]
    backlog: int
    start_seconds: float
    steady_seconds: float
    rounds: int
    rounds_max: int
    touched_bytes: int
    apart: tuple[str, ...] = ("stopped-at-once", "floods", "slow-floods")
    limits: tuple[str, ...] = ("floods", "slow-floods")


LARGE = Size(
    {
        "stopped-readers": 1_000,
        "stopped-at-once": 1_000,
        "slow-senders": 5_000,
        "floods": 200,
        "slow-floods": 200,
        "half-frames": 400,
    },
    backlog=20_000,
    start_seconds=1.0,
    steady_seconds=1.2,
    rounds=9,
    rounds_max=18,
    touched_bytes=1 << 30,
)
SMALL = Size(
    {
        "stopped-readers": 20,
        "stopped-at-once": 20,
        "slow-senders": 50,
        "floods": 5,
        "slow-floods": 5,
        "half-frames": 5,
    },
    backlog=500,
    start_seconds=0.3,
    steady_seconds=0.3,
    rounds=1,
    rounds_max=1,
    touched_bytes=1 << 24,
)


@dataclass(frozen=True)
class Cores:
    """The cores for the load generator, and the cores for the broker or the sink."""

    generator: frozenset[int]
    server: frozenset[int]

    @classmethod
    def choose(cls, is_apart: bool) -> Self:
        """All cores for both; if apart, one core for the generator and the others for the
        server."""
        every = frozenset(os.sched_getaffinity(0))
        one = frozenset([min(every)])
        return cls(one, every - one) if is_apart and every > one else cls(every, every)

    def name(self) -> str:
        """The words for it in the name of a case."""
        if self.generator == self.server:
            return ""
        count = len(self.server)
        return f", cores apart, the broker has {'one' if count == 1 else count}"


def _keep_on(pid: int, cores: frozenset[int]) -> None:
    """Pin all threads of a process, and the threads that they start, to these cores."""
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), cores)


class Trouble:
    """A connected process of `lib.trouble`; misbehaves from `begin` to the end of the `with` block.

    done: its counts, after the block.
    """

    def __init__(self, kind: str, address: str, count: int, cores: Cores) -> None:
        arguments = ["-m", "benches.lib.trouble", kind, address, str(count)]
        self.done: dict[str, int] = {}
        self._process = ServerProcess([sys.executable, *arguments], cwd=ROOT, ready="ready")
        _keep_on(self._process.pid, cores.generator)

    def __enter__(self) -> Self:
        return self

    def begin(self) -> None:
        """Start the misbehaviour."""
        self._process.write_line("begin")

    def __exit__(self, *_error: object) -> None:
        try:
            self._process.write_line("end")
            self.done = json.loads(self._process.await_line("{", ANSWER_SECONDS_MAX))
        finally:
            self._process.stop()


class Sink:
    """A process that reads everything and answers nothing, for the time of the `with` block."""

    def __init__(self, cores: Cores) -> None:
        command = [sys.executable, "-m", "benches.lib.trouble", SINK]
        self._process = ServerProcess(command, cwd=ROOT, ready="ready")
        _keep_on(self._process.pid, cores.server)
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
        # Not smaps_rollup, which other benches read: reading it blocks the broker.
        self._status = Path(f"/proc/{cluster.pids[-1]}/status")
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._over.wait(0.1):
            lines = self._status.read_text().splitlines()
            line = next(line for line in lines if line.startswith("RssAnon:"))
            self.megabytes = max(self.megabytes, int(line.split()[1]) / 1024)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._over.set()
        self._thread.join()


@dataclass
class Round:
    """One round: p99 of the healthy client in ms, by phase.

    before, after: the client alone. beside: with the load on the sink. among: with the load on the
    broker. memory_mb, answered_busy, closed: measured while the broker had the load.
    """

    before: float
    after: float = math.inf
    beside: dict[str, float] = field(default_factory=dict)
    among: dict[str, float] = field(default_factory=dict)
    memory_mb: float = 0.0
    answered_busy: int = 0
    closed: int = 0

    @property
    def worst_alone(self) -> float:
        """The higher of the two p99 alone: shows how busy the machine was with other work."""
        return max(self.before, self.after)


@dataclass
class Found:
    """The rounds with one kind of misbehaviour.

    has_goal: whether the ratio is judged; memory is always judged.
    """

    has_goal: bool = True
    rounds: list[Round] = field(default_factory=list)

    @property
    def memory_mb(self) -> float:
        """The maximum of all rounds, including the rounds that do not count."""
        return max(one.memory_mb for one in self.rounds)

    def count_quiet(self, alone_max: float) -> int:
        """Number of rounds in which the client alone had a p99 of at most `alone_max` ms."""
        return sum(one.worst_alone <= alone_max for one in self.rounds)

    def rows(self, name: str, count: int) -> Iterator[dict[str, object]]:
        """A row for each phase, from the `count` quietest rounds."""
        quiet = sorted(self.rounds, key=lambda one: one.worst_alone)[:count]
        alone = [one.before for one in quiet]
        for phase in PHASES:
            beside = [one.beside[phase] for one in quiet]
            among = [one.among[phase] for one in quiet]
            ratio, to_alone = (
                statistics.median(among) / statistics.median(one) for one in (beside, alone)
            )
            yield {
                "who": name,
                "when": phase,
                "alone": _spread(alone),
                "beside the sink": _spread(beside),
                "at the broker": _spread(among),
                f"ratio (<= {P99_RATIO_MAX:g})": ratio,
                "to alone": to_alone,
                f"anonymous MB (<= {ANONYMOUS_MB_MAX:g})": self.memory_mb,
                "met": self._met(ratio),
                "answered busy": sum(one.answered_busy for one in self.rounds),
                "closed": sum(one.closed for one in self.rounds),
                "rounds": f"{len(quiet)} of {len(self.rounds)}",
            }

    def _met(self, ratio: float) -> str:
        if self.memory_mb > ANONYMOUS_MB_MAX:
            return verdict(False)
        return verdict(ratio <= P99_RATIO_MAX) if self.has_goal else ""


def main(smoke: bool = False) -> None:
    """Run every kind of overload, and print its effect on memory and on a healthy client."""
    report = Report("overload", mode_of(smoke), METHOD, named_by=("who", "when"))
    run(SMALL if smoke else LARGE, report)


def run(size: Size, report: Report) -> None:
    """Run the kinds of overload that `size` names."""
    allow_open_files()
    with (
        tempfile.TemporaryDirectory(prefix="mqbench-") as folder,
        Ours(Path(folder) / "ours", {}) as cluster,
    ):
        make_backlog(cluster, size.backlog)
        _p99(cluster, size.steady_seconds)
        alone: list[float] = []
        for kind, count in size.counts.items():
            wanted = [False, True] if kind in size.apart else [False]
            # On a machine with one core, both choices are the same.
            for cores in dict.fromkeys(map(Cores.choose, wanted)):
                found = _measure(cluster, kind, size, cores, alone)
                no_goal = "" if found.has_goal else ": no goal"
                name = f"{count:,} {kind}{cores.name()}{no_goal}"
                for row in found.rows(name, size.rounds):
                    print(*row.values(), sep=" | ", file=sys.stderr, flush=True)
                    report.rows.append(row)
    report.finish()


def _measure(cluster: Ours, kind: str, size: Size, cores: Cores, alone: list[float]) -> Found:
    """Measure one kind; appends each p99 of the client alone, in ms, to `alone`."""
    is_limit = kind in size.limits and cores.name() != "" and len(cores.server) == 1
    found = Found(has_goal=not is_limit)
    _keep_on(cluster.pids[-1], cores.server)
    alone.append(_p99(cluster, size.start_seconds))
    while (
        len(found.rounds) < size.rounds_max
        and found.count_quiet(QUIET_RATIO_MAX * min(alone)) < size.rounds
    ):
        one = Round(alone[-1])
        cases = [_beside, _among]
        for case in cases if len(found.rounds) % 2 else reversed(cases):
            touch_memory(size.touched_bytes)
            case(cluster, kind, size, cores, one)
            settle(cluster)
        one.after = _p99(cluster, size.start_seconds)
        alone.append(one.after)
        found.rounds.append(one)
    return found


def _beside(cluster: Ours, kind: str, size: Size, cores: Cores, one: Round) -> None:
    count = size.counts[kind]
    with Sink(cores) as sink, Trouble(kind, sink.address, count, cores) as trouble:
        _follow(cluster, trouble, size, one.beside)


def _among(cluster: Ours, kind: str, size: Size, cores: Cores, one: Round) -> None:
    trouble = Trouble(kind, broker_of(cluster), size.counts[kind], cores)
    with Peak(cluster) as peak, trouble:
        _follow(cluster, trouble, size, one.among)
    one.memory_mb = peak.megabytes
    one.answered_busy = trouble.done["answered_busy"]
    one.closed = trouble.done["closed"]


def _follow(cluster: Ours, trouble: Trouble, size: Size, p99: dict[str, float]) -> None:
    """Measure the healthy client while the misbehaviour starts, and afterwards."""
    began = threading.Timer(LEAD_SECONDS, trouble.begin)
    began.start()
    p99[START] = _p99(cluster, size.start_seconds)
    began.join()
    p99[STEADY] = _p99(cluster, size.steady_seconds)


def _p99(cluster: Ours, seconds: float) -> float:
    """p99 of the healthy client, in milliseconds."""
    load: dict[str, object] = {"namesrv": cluster.namesrv, "topic": "Healthy"}
    times = {"warmup_s": WARMUP_SECONDS, "duration_s": seconds}
    report = run_produce({**load, **times}, rate=RATE)
    for problem in report["problems"]:
        print(problem, file=sys.stderr)
    return float(report["latency_us"]["p99"]) / 1_000


def _spread(values: list[float]) -> str:
    return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})"

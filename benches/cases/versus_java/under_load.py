"""Rows that load the brokers one after the other, at full speed or at the same offered rate."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Protocol

from benches.cases.versus_java import limit
from benches.cases.versus_java.bystanders import Bystanders
from benches.cases.versus_java.rows import Figures, Measured, Session
from benches.lib import calibrate
from benches.lib.harness import touch_memory
from benches.lib.java_client import JavaSend
from benches.lib.loads import Case, Loads, make_backlog, measure
from benches.lib.servers import Cluster, Java

STORE_BYTES_MAX = 2 << 30
"""A broker whose store has grown beyond this restarts with an empty store."""
COMPILE = Case("warm-up", produce={"in_flight": 64})
"""The load that warms a JVM fastest, because the client needs little of the CPU."""
WARM_RUNS_MIN, WARM_RUNS_MAX = 4, 8
WARM_GROWTH = 1.2
"""A broker is warm when its rate grows by less than this factor from one run to the next."""
REWARM_SECONDS = 0.5
PACED_IN_FLIGHT_MAX = 1024
OTHERS_MAX, DROPPED_MAX = 0.1, 1
"""A round is dropped if others used more than this share of the CPU. At most DROPPED_MAX times the
requested number of rounds are dropped."""
TOUCHED_BYTES_PER_SECOND = 700 << 20
"""Memory touched before a round, per second of the round: as much as the fastest load fills."""
DISK_FLUSHES = 500
ASYNC, SYNC = "ASYNC_FLUSH", "SYNC_FLUSH"


@dataclass(frozen=True)
class Load:
    """A load on each broker, in alternating rounds while all brokers are up.

    make: creates the load for a session. backlog: fill the topic before the load reads it. seconds:
    length of a round; None for the session's length, 0 if a round ends by itself. beside_disk:
    measure the disk's fdatasync before each round, and report the difference to the broker's p50.
    beside_limit: measure the limit server as well, if there is a Rust compiler.
    """

    make: Callable[[Session], Loads]
    flush: str = ASYNC
    backlog: bool = False
    seconds: float | None = None
    beside_disk: bool = False
    beside_limit: bool = False

    def run(self, session: Session) -> Measured:
        """Run alternating rounds."""
        with _Turns(self, session, self.make(session)) as turns:
            turns.take()
            return turns.measured


class Paced(Protocol):
    """A load that can also be offered at a rate."""

    def run(self, cluster: Cluster, seconds: float) -> dict[str, object]:
        """Load the cluster's broker."""

    def at_rate(self, rate: float) -> Loads:
        """The same load, offered at `rate` messages per second."""


@dataclass(frozen=True)
class OpenLoop:
    """The same offered rate for all brokers: a share of Java 4.9.7's maximum in the same run."""

    make: Callable[[Session], Paced]
    share: float = 0.5
    seconds: float | None = None

    def run(self, session: Session) -> Measured:
        """Find Java's maximum, then run alternating rounds at the share of it."""
        load = self.make(session)
        with _Turns(Load(self.make), session, load) as turns:
            reference = next((c for c in turns.clusters if type(c) is Java), turns.clusters[0])
            rates = [measure(load, reference, session.seconds) for _ in range(2)]
            most = max(rate["messages_per_s"] for rate in rates)
            turns.load = load.at_rate(round(most * self.share))
            turns.take()
            offered = f"{most * self.share:,.0f} messages/s offered"
            limit = f"{reference.name} takes {most:,.0f} at most"
            turns.measured.note = f"{offered}, {limit}; {turns.measured.note}"
            return turns.measured


@dataclass(frozen=True)
class NativeSend(Case):
    """A native load that can be paced."""

    def at_rate(self, rate: float) -> NativeSend:
        """The same load at an offered rate: sends start when due, even if earlier replies are
        missing."""
        produce = {**self.produce, "rate": rate, "in_flight": PACED_IN_FLIGHT_MAX}
        return replace(self, produce=produce)


def paced_java(threads: int) -> Callable[[Session], JavaSend]:
    """The Java client's synchronous sends from `threads` threads."""
    return lambda session: JavaSend(session.client, threads)


class _Turns:
    """All brokers of a row, started and warmed up for the time of the `with` block."""

    def __init__(self, how: Load, session: Session, load: Loads) -> None:
        self.how = how
        self.session = session
        self.load = load
        self.clusters: list[Cluster] = []
        self.measured = Measured({})
        self._stack = ExitStack()

    def __enter__(self) -> _Turns:
        with ExitStack() as stack:
            for kind in self._kinds():
                folder = self.session.new_folder(kind.name)
                cluster = stack.enter_context(kind(folder, {"flushDiskType": self.how.flush}))
                self.clusters.append(cluster)
                self.measured.rounds[cluster.name] = []
                with _blaming(cluster):
                    self._warm(cluster)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _kinds(self) -> list[type[Cluster]]:
        is_there = self.how.beside_limit and limit.missing() is None
        return [*self.session.kinds, *([limit.Limit] if is_there else [])]

    def take(self) -> None:
        """Run rounds until enough of them had a quiet machine, or too many were dropped."""
        dropped, most = 0, 0.0
        while len(next(iter(self.measured.rounds.values()))) < self.session.rounds:
            figures, share = self.round()
            if share > OTHERS_MAX and dropped < DROPPED_MAX * self.session.rounds:
                dropped += 1
                continue
            most = max(most, share)
            for name, one in figures.items():
                self.measured.rounds[name].append(one)
        others = f"others used up to {most:.0%} of the CPU meanwhile"
        again = f", {dropped} rounds with more were dropped" if dropped else ""
        self.measured.note = others + again

    def round(self) -> tuple[dict[str, Figures], float]:
        """Measure every broker once; also returns the highest CPU share of other processes."""
        figures, share = {}, 0.0
        for cluster in self.clusters:
            os.sync()  # so that dirty pages of other brokers do not slow this one down
            if not self.how.backlog:  # a backlog must stay in the page cache
                touch_memory(round(TOUCHED_BYTES_PER_SECOND * self._seconds))
            pids = [pid for one in self.clusters for pid in one.pids]
            bystanders = Bystanders([*pids, *self.session.client_pids])
            figures[cluster.name] = self._measure(cluster)
            share = max(share, bystanders.share())
            if cluster.store_bytes() > STORE_BYTES_MAX and not self.how.backlog:
                self._empty(cluster)
        return figures, share

    @property
    def _seconds(self) -> float:
        return self.how.seconds or self.session.seconds

    def _measure(self, cluster: Cluster) -> Figures:
        disk = self._disk_us()
        with _blaming(cluster):
            figures: Figures = measure(self.load, cluster, self._seconds)
        p50 = figures["p50_us"]
        if disk is not None and p50 is not None:
            figures |= {"disk_p50_us": disk, "added_us": p50 - disk}
        return figures

    def _empty(self, cluster: Cluster) -> None:
        cluster.restart_empty()
        if isinstance(cluster, Java):
            self._warm(cluster)
        else:
            self.load.run(cluster, REWARM_SECONDS)

    def _disk_us(self) -> float | None:
        if not self.how.beside_disk:
            return None
        return calibrate.fdatasync_s(self.session.folder, DISK_FLUSHES) * 1e6

    def _warm(self, cluster: Cluster) -> None:
        if self.how.backlog:
            make_backlog(cluster, self.session.backlog_messages)
        elif isinstance(cluster, Java):
            self._until_warm(COMPILE, cluster)
        self._until_warm(self.load, cluster)

    def _until_warm(self, load: Loads, cluster: Cluster) -> None:
        last = 0.0
        for number in range(WARM_RUNS_MAX):
            try:
                rate = load.run(cluster, self.session.warmup_seconds)["messages_per_second"]
            except RuntimeError:  # a JVM may be too busy compiling to accept requests
                continue
            if rate < last * WARM_GROWTH and number + 1 >= WARM_RUNS_MIN:
                return
            last = rate


@contextmanager
def _blaming(cluster: Cluster) -> Iterator[None]:
    """Add the broker's name to an error."""
    try:
        yield
    except Exception as error:
        error.add_note(f"the broker: {cluster.name}")
        raise

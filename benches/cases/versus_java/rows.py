"""A row of the comparison: its measurement, its goals, and the verdict on them."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from pathlib import Path
from typing import Protocol

from benches.cases.versus_java.limit import Limit
from benches.lib.java_client import JavaClient
from benches.lib.servers import Cluster, Java, Java5, Ours

KINDS: tuple[type[Cluster], ...] = (Ours, Java, Java5)
OURS, LIMIT = Ours.name, Limit.name
Figures = dict[str, float | None]
"""The figures of one round of one broker."""


@dataclass
class Session:
    """One run of one row.

    folder: temporary files. seconds: length of a measured round. warmup_seconds: length of a
    warm-up run. rounds: measured rounds of every broker.
    """

    folder: Path
    seconds: float
    warmup_seconds: float
    rounds: int
    kinds: Sequence[type[Cluster]] = KINDS
    backlog_messages: int = 300_000
    _folders: itertools.count[int] = field(default_factory=itertools.count)

    @cached_property
    def client(self) -> JavaClient:
        """The Java client's JVM; started at the first access."""
        home = self.new_folder("client")
        home.mkdir()
        return JavaClient(home)

    def new_folder(self, name: str) -> Path:
        """A path that does not exist yet."""
        return self.folder / f"{name}-{next(self._folders)}"

    @property
    def client_pids(self) -> list[int]:
        """The pid of the JVM, if it was started."""
        return [self.client.pid] if "client" in self.__dict__ else []

    def stop(self) -> None:
        """End the JVM, if it was started."""
        if self.client_pids:
            self.client.stop()


@dataclass
class Measured:
    """The rounds of every broker in the order of their run; note: a remark for the report."""

    rounds: dict[str, list[Figures]]
    note: str = ""

    def median(self, broker: str, figure: str) -> float | None:
        """The median over the rounds that have the figure."""
        known = self.values(broker, figure)
        return statistics.median(known) if known else None

    def values(self, broker: str, figure: str) -> list[float]:
        """The figure of every round that has it."""
        found = (one.get(figure) for one in self.rounds.get(broker, ()))
        return [value for value in found if value is not None]


class How(Protocol):
    """A way to measure: a load, a start, an idle broker."""

    @property
    def seconds(self) -> float | None:
        """Length of a round: None for the session's length, 0 if a round ends by itself."""

    def run(self, session: Session) -> Measured:
        """Measure every broker `session.rounds` times, alternating between the brokers."""


class Need(Enum):
    """How our median is judged: by a fixed value, or by the best Java broker of the same run."""

    AT_LEAST = "≥ {}"
    AT_MOST = "≤ {}"
    TIMES_JAVA = "≥ {} x Java's"
    OF_JAVA = "≤ {} x Java's"


@dataclass(frozen=True)
class Goal:
    """A figure and the value that it must reach."""

    figure: str
    need: Need
    value: float

    def judge(self, measured: Measured, server: str = OURS) -> Verdict | None:
        """The verdict on our server or another one; None if a figure was not measured."""
        ours = measured.median(server, self.figure)
        if ours is None:
            return None
        if self.need in (Need.AT_LEAST, Need.AT_MOST):
            found = ours
        else:
            better = max if self.need is Need.TIMES_JAVA else min
            others = _java_medians(measured, self.figure)
            if not others:
                return None
            found = ours / better(others.values())
        is_least = self.need in (Need.AT_LEAST, Need.TIMES_JAVA)
        return Verdict(self, found, found >= self.value if is_least else found <= self.value)


@dataclass(frozen=True)
class Verdict:
    """The result for one goal. found: the median, or its ratio to Java's median."""

    goal: Goal
    found: float
    met: bool


@dataclass(frozen=True)
class Row:
    """One row. name: its file name. title: its heading. plot: the figure in the plot."""

    name: str
    title: str
    how: How
    goals: tuple[Goal, ...]
    plot: str = "messages_per_s"


def ratios(measured: Measured, figure: str) -> dict[str, float]:
    """Our median divided by each Java broker's median."""
    ours = measured.median(OURS, figure)
    others = _java_medians(measured, figure)
    return {} if ours is None else {name: ours / other for name, other in others.items()}


def of_limit(measured: Measured, figure: str) -> float | None:
    """Our median divided by the limit's median; None if the limit was not measured."""
    ours, limit = measured.median(OURS, figure), measured.median(LIMIT, figure)
    return ours / limit if ours is not None and limit else None


def _java_medians(measured: Measured, figure: str) -> Mapping[str, float]:
    others = [name for name in measured.rounds if name not in (OURS, LIMIT)]
    medians = {name: measured.median(name, figure) for name in others}
    return {name: value for name, value in medians.items() if value}

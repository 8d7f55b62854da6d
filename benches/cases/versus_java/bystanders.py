"""CPU used by processes outside the bench: rounds with much of it are dropped."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from benches.lib.harness import ProcessCost

_TICK = os.sysconf("SC_CLK_TCK")


class Bystanders:
    """CPU used since the construction by everything except our processes, including the host."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._costs = [ProcessCost(pid) for pid in (os.getpid(), *pids)]
        self._before = self._now()

    def share(self) -> float:
        """The share of all cores that others used: with two cores, 0.25 is half a core."""
        wall, all_cpu, ours = (
            now - before for now, before in zip(self._now(), self._before, strict=True)
        )
        return max(0.0, all_cpu - ours) / (wall * (os.cpu_count() or 1))

    def _now(self) -> tuple[float, float, float]:
        ours = sum(cost.cpu_seconds() for cost in self._costs)
        return time.monotonic(), taken_seconds(Path("/proc/stat").read_text()), ours


def taken_seconds(stat: str) -> float:
    """User, nice and system time of all processes, plus the time stolen by the host (proc_stat(5)).

    Without interrupts, which the kernel charges to no process.
    """
    fields = stat.split(maxsplit=9)
    return sum(int(fields[at]) for at in (1, 2, 3, 8)) / _TICK

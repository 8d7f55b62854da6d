"""CPU that is not of the bench: rounds beside much of it are not worth keeping."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from benches.lib.harness import ProcessCost

_TICK = os.sysconf("SC_CLK_TCK")


class Bystanders:
    """CPU of everything but our processes, the host's among it, from when it is made."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._costs = [ProcessCost(pid) for pid in (os.getpid(), *pids)]
        self._before = self._now()

    def share(self) -> float:
        """0.25 of two cores: half a core was used by others."""
        wall, all_cpu, ours = (
            now - before for now, before in zip(self._now(), self._before, strict=True)
        )
        return max(0.0, all_cpu - ours) / (wall * (os.cpu_count() or 1))

    def _now(self) -> tuple[float, float, float]:
        ours = sum(cost.cpu_seconds() for cost in self._costs)
        return time.monotonic(), taken_seconds(Path("/proc/stat").read_text()), ours


def taken_seconds(stat: str) -> float:
    """User, nice and system time of all processes, and what a virtual machine's host kept for
    others (proc_stat(5)); interrupts are nobody's.
    """
    fields = stat.split(maxsplit=9)
    return sum(int(fields[at]) for at in (1, 2, 3, 8)) / _TICK

"""CPU that is not of the bench: rounds beside much of it are not worth keeping."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from benches.harness import ProcessCost

_TICK = os.sysconf("SC_CLK_TCK")


class Bystanders:
    """CPU of everything but our processes, from when it is made."""

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
        return time.monotonic(), _cpu_seconds(), ours


def _cpu_seconds() -> float:
    """User, nice and system time of all processes; interrupts are nobody's."""
    fields = Path("/proc/stat").read_text().split(maxsplit=4)
    return sum(map(int, fields[1:4])) / _TICK

"""Rows about the processes themselves: their start time and their memory."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import dataclass

from benches.cases.versus_java.rows import OURS, Figures, Measured, Session
from benches.lib.harness import ROOT
from benches.lib.loads import Case
from benches.lib.servers import Cluster

IDLE_SECONDS = 2.0
"""Seconds after which background work of the start has ended."""
FILL = Case("fill", produce={"in_flight": 64})
IN_PROCESS = """
import time
from mqserver import Standalone
for _ in range(2):
    started = time.perf_counter()
    with Standalone():
        took = time.perf_counter() - started
print(took * 1000)
"""


@dataclass(frozen=True)
class Start:
    """Time from a server's exec to its open port, with an empty store; ours also in process."""

    seconds: float | None = 0.0

    def run(self, session: Session) -> Measured:
        """Each round starts and stops every cluster."""
        measured = Measured({kind.name: [] for kind in session.kinds})
        for _ in range(session.rounds):
            for kind in session.kinds:
                with kind(session.new_folder(kind.name), {}) as cluster:
                    figures = _start_figures(cluster)
                measured.rounds[kind.name].append(figures)
        return measured


@dataclass(frozen=True)
class Memory:
    """Memory after a start, and after a load of sends."""

    seconds: float | None = None

    def run(self, session: Session) -> Measured:
        """Each round starts, loads and stops every cluster."""
        measured = Measured({kind.name: [] for kind in session.kinds})
        for _ in range(session.rounds):
            for kind in session.kinds:
                with kind(session.new_folder(kind.name), {}) as cluster:
                    measured.rounds[kind.name].append(_memory_figures(cluster, session))
        return measured


def _start_figures(cluster: Cluster) -> Figures:
    namesrv, broker = cluster.start_ms
    figures: Figures = {"broker_start_ms": broker, "namesrv_start_ms": namesrv}
    if cluster.name == OURS:
        command = [sys.executable, "-c", IN_PROCESS]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        figures["call_ms"] = float(done.stdout)
    return figures


def _memory_figures(cluster: Cluster, session: Session) -> Figures:
    time.sleep(IDLE_SECONDS)
    figures: Figures = {
        "idle_anonymous_mb": cluster.cost.anonymous_mb(),
        "idle_file_mb": cluster.cost.file_mb(),
        "namesrv_anonymous_mb": cluster.namesrv_cost.anonymous_mb(),
    }
    FILL.run(cluster, session.seconds)
    loaded = {"anonymous_mb": cluster.cost.anonymous_mb(), "file_mb": cluster.cost.file_mb()}
    return figures | loaded

"""A master and its slave, as a load for the benches of replication."""

from __future__ import annotations

import os
import re
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Self

from benches.lib.harness import touch_memory
from benches.lib.loads import Loads, send
from benches.lib.servers import Cluster, broker_of
from mqcommon.wire.bodies.common import KVTable
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe

LEVEL_SECONDS_MAX = 120.0
POLL_SECONDS = 0.02
STORE_BYTES_MAX = 4 << 30
"""A pair whose two stores have grown beyond this restarts with empty stores."""
TOUCHED_BYTES_PER_SECOND = 1 << 30
"""Memory touched before a round, per second of the round: both stores fill page cache."""
_BEHIND = re.compile(r"transfer, (\d+) bytes behind")


class Pair:
    """A cluster whose broker has one slave; stopped at the end of the `with` block."""

    def __init__(self, name: str, kind: type[Cluster], folder: Path, role: str) -> None:
        self.name = name
        self.cluster = kind(folder, {"brokerRole": role})

    def __enter__(self) -> Self:
        self.cluster.__enter__()
        try:
            self._join()
        except BaseException:
            self.cluster.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self.cluster.__exit__()

    def _join(self) -> None:
        self.slave = self.cluster.add_slave({})
        self.master_address = broker_of(self.cluster)
        send(self.cluster, "BenchJoin", 1)
        self.await_level()

    def await_level(self) -> None:
        """Wait until the slave has the whole log; raises RuntimeError after two minutes."""
        deadline = time.monotonic() + LEVEL_SECONDS_MAX
        with Probe(self.master_address) as master, Probe(self.slave.address) as slave:
            while (end := log_end(slave)) < log_end(master):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{self.name}: the slave stays at {end}")
                time.sleep(POLL_SECONDS)

    def measure(self, load: Loads, seconds: float) -> dict[str, Any]:
        """One round: rate, latency, CPU of both brokers, and the slave's lag meanwhile."""
        if self.cluster.store_bytes() > STORE_BYTES_MAX:
            self.cluster.restart_empty()
            self._join()
        self.await_level()
        os.sync()  # dirty pages of an earlier round do not slow this one down
        touch_memory(round(TOUCHED_BYTES_PER_SECOND * seconds))
        costs = (self.cluster.cost, self.slave.cost)
        before = [cost.cpu_seconds() for cost in costs]
        with self._lag() as lags:
            report = load.run(self.cluster, seconds)
        self.await_level()
        messages = report["messages"]
        used = [
            (cost.cpu_seconds() - start) / messages * 1e6
            for cost, start in zip(costs, before, strict=True)
        ]
        return {
            "messages_per_s": report["messages_per_second"],
            "p50_us": report["latency_us"]["p50"],
            "p99_us": report["latency_us"]["p99"],
            "master_cpu_us": used[0],
            "slave_cpu_us": used[1],
            "lag_kib": statistics.median(lags) / 1024,
            "lag_max_kib": max(lags) / 1024,
            "not_replicated": _lesser(report),
        }

    @contextmanager
    def _lag(self) -> Iterator[list[int]]:
        """Samples of the slave's lag in bytes, taken during the `with` block.

        The master is asked after the slave, so a sample also has what came in between.
        """
        lags: list[int] = []
        is_over = threading.Event()

        def sample() -> None:
            with Probe(self.master_address) as master, Probe(self.slave.address) as slave:
                while not lags or not is_over.wait(POLL_SECONDS):
                    end = log_end(slave)
                    lags.append(max(log_end(master) - end, 0))

        thread = threading.Thread(target=sample)
        thread.start()
        try:
            yield lags
        finally:
            is_over.set()
            thread.join()


def log_end(broker: Probe) -> int:
    """The end of a broker's log, bytes; -1 for an empty log of RocketMQ."""
    return int(_figures(broker).get("commitLogMaxOffset", "-1"))


def catch_up(cluster: Cluster, settings: Mapping[str, object]) -> float:
    """Seconds that a new slave takes for the whole log of our broker, without its start."""
    began: list[float] = []
    ended: list[float] = []

    def watch() -> None:
        deadline = time.monotonic() + LEVEL_SECONDS_MAX
        with Probe(broker_of(cluster)) as master:
            while time.monotonic() < deadline:
                asked = time.monotonic()
                behind = _behind(master)
                if behind is None:
                    began[:] = [asked]
                elif behind == 0:
                    ended.append(time.monotonic())
                    return
                time.sleep(POLL_SECONDS / 4)

    thread = threading.Thread(target=watch)
    thread.start()
    slave = cluster.add_slave(settings)
    thread.join()
    slave.process.stop()
    if not (began and ended):
        raise RuntimeError("the slave has not caught up")
    return ended[0] - began[0]


def _behind(master: Probe) -> int | None:
    """Bytes that the slave of a master of ours is behind; None before it copies."""
    rows = (value for key, value in _figures(master).items() if key.startswith("haSlave."))
    found = next((match for row in rows if (match := _BEHIND.match(row))), None)
    return int(found[1]) if found else None


def _figures(broker: Probe) -> dict[str, str]:
    body = broker.call(Frame(RequestCode.GET_BROKER_RUNTIME_INFO)).body
    return KVTable.from_json(body).table if body else {}  # Java's fails while its log is empty


def _lesser(report: Mapping[str, Any]) -> int:
    """Sends that were stored, but not acknowledged by the slave."""
    counts = (report.get("lesser_durability") or {}, report.get("refused") or {})
    return sum(count for of_reason in counts for count in of_reason.values())

"""The loads for brokers, and one measured round of a load."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Protocol

from benches.lib.harness import BenchFailed
from benches.lib.servers import Cluster
from mqclient.cli.bench import run_consume, run_produce

BACKLOG_TOPIC = "BenchBacklog"
BACKLOG_SETTLE_SECONDS = 60.0
QUIET_SECONDS = 0.1
QUIET_SHARE = 0.2
"""A broker that uses at most this share of a core has finished its earlier work."""
SETTLE_SECONDS_MAX = 10.0


@dataclass(frozen=True)
class Case:
    """One load: `threads` connections with `in_flight` requests each.

    consume: read the backlog repeatedly instead of sending.
    """

    name: str
    threads: int = 1
    consume: bool = False
    produce: dict[str, Any] = field(default_factory=dict)
    headers: str = "json"

    def run(self, cluster: Cluster, seconds: float) -> dict[str, Any]:
        """Load the cluster's broker; returns the generator's report."""
        load = {
            "namesrv": cluster.namesrv,
            "topic": BACKLOG_TOPIC if self.consume else "BenchProduce",
            "threads": self.threads,
            "headers": self.headers,
            "warmup_s": 0.0,
            "duration_s": seconds,
        }
        if self.consume:
            return run_consume(load, repeat=True)
        return run_produce(load, **self.produce)


ASYNC_FLUSH = (
    Case("send, 1 in flight"),
    Case("send, 64 in flight", produce={"in_flight": 64}),
    Case("send, 64 in flight, ROCKETMQ header", produce={"in_flight": 64}, headers="rocketmq"),
    Case("send, 64 threads", threads=64),
    Case("send, 16 threads, batches of 32 x 128 B", 16, produce={"batch": 32, "body_bytes": 128}),
    Case("consume backlog, 1 KiB", consume=True),
)
SYNC_FLUSH = (
    Case("SYNC_FLUSH send, 1 in flight"),
    Case("SYNC_FLUSH send, 64 threads", threads=64),
)


class Loads(Protocol):
    """A load that runs for some seconds: by the native generator or the Java client."""

    def run(self, cluster: Cluster, seconds: float) -> dict[str, Any]:
        """Load the cluster's broker; returns the generator's report.

        The report may have "unit", if it counts something else than messages, and "more", with
        additional figures.
        """


def measure(load: Loads, cluster: Cluster, seconds: float) -> dict[str, Any]:
    """Run one measured round; returns throughput, latency, and the broker's CPU and memory."""
    cpu_before = cluster.cost.cpu_seconds()
    report = load.run(cluster, seconds)
    cpu = cluster.cost.cpu_seconds() - cpu_before
    latency = report.get("latency_us", {})
    messages, unit = report["messages"], report.get("unit", "message")
    return {
        f"{unit}s_per_s": report["messages_per_second"],
        **{f"{name}_us": latency.get(name) for name in ("p50", "p99", "p999", "p9999")},
        "refused": sum(report.get("refused", {}).values()) or None,
        f"broker_cpu_us_per_{unit}": cpu / messages * 1e6 if messages else None,
        "anonymous_mb": cluster.cost.anonymous_mb(),
        "file_mb": cluster.cost.file_mb(),
        **report.get("more", {}),
    }


def settle(cluster: Cluster) -> None:
    """Wait until the broker has cleaned up after clients that disconnected."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while time.monotonic() < deadline:
        before = cluster.cost.cpu_seconds()
        time.sleep(QUIET_SECONDS)
        if cluster.cost.cpu_seconds() - before <= QUIET_SECONDS * QUIET_SHARE:
            return
    raise RuntimeError(f"the broker is still busy after {SETTLE_SECONDS_MAX:g} s")


def send(cluster: Cluster, topic: str, count: int) -> None:
    """Send `count` messages to a topic, one after the other; raises BenchFailed if one failed.

    Then wait until the NameServer knows the topic: the broker registers a new topic with a delay.
    """
    no_problems(run_produce({"namesrv": cluster.namesrv, "topic": topic, "count": count}))
    cluster.route(topic)


def no_problems(report: dict[str, Any]) -> dict[str, Any]:
    """Return the report; raises BenchFailed if it lists problems."""
    if report["problems"]:
        raise BenchFailed("; ".join(report["problems"]))
    return report


def make_backlog(cluster: Cluster, messages: int, topic: str = BACKLOG_TOPIC) -> None:
    """Fill a topic, and wait until all messages can be read."""
    load: dict[str, object] = {"namesrv": cluster.namesrv, "topic": topic}
    left = messages
    while left > 0:  # a busy broker refuses some messages
        count = {"warmup_s": 0.0, "duration_s": 600.0, "count": left}
        left -= run_produce({**load, **count}, in_flight=64)["messages"]
    cluster.route(topic)
    deadline = time.monotonic() + BACKLOG_SETTLE_SECONDS
    while (read := _readable(load)) < messages:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{cluster.name}: {read} of {messages} messages can be read")


def _readable(load: dict[str, object]) -> int:
    """Number of messages of the backlog that can be read now."""
    return int(run_consume({**load, "warmup_s": 0.0, "duration_s": 600.0})["messages"])

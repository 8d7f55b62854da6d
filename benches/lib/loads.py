"""The loads that brokers are measured with, and one round of one of them."""

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
"""Of a core, and the broker counts as done with what was before."""
SETTLE_SECONDS_MAX = 10.0


@dataclass(frozen=True)
class Case:
    """One load: `threads` connections with `in_flight` requests each.

    consume: read the backlog, again and again, instead of sending.
    """

    name: str
    threads: int = 1
    consume: bool = False
    produce: dict[str, Any] = field(default_factory=dict)
    headers: str = "json"

    def run(self, cluster: Cluster, seconds: float) -> dict[str, Any]:
        """Load the cluster's broker; the generator's report."""
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
    """Anything that can load a broker for some seconds: the native generator, the Java client."""

    def run(self, cluster: Cluster, seconds: float) -> dict[str, Any]:
        """Load the cluster's broker; the generator's report.

        It may say "unit": of what its messages are; and "more": figures of its own.
        """


def measure(load: Loads, cluster: Cluster, seconds: float) -> dict[str, Any]:
    """Run one measured round: throughput, latency, and what it cost the broker."""
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
    """Wait until the broker is done with those who have gone."""
    deadline = time.monotonic() + SETTLE_SECONDS_MAX
    while time.monotonic() < deadline:
        before = cluster.cost.cpu_seconds()
        time.sleep(QUIET_SECONDS)
        if cluster.cost.cpu_seconds() - before <= QUIET_SECONDS * QUIET_SHARE:
            return
    raise RuntimeError(f"the broker is still busy after {SETTLE_SECONDS_MAX:g} s")


def send(cluster: Cluster, topic: str, count: int) -> None:
    """So many messages to a topic, one after the other; raises BenchFailed if one failed.

    Consumers find a topic that this made: a broker tells the NameServer of it some time later.
    """
    no_problems(run_produce({"namesrv": cluster.namesrv, "topic": topic, "count": count}))
    cluster.route(topic)


def no_problems(report: dict[str, Any]) -> dict[str, Any]:
    """The same; raises BenchFailed with what went wrong in a run of the generator."""
    if report["problems"]:
        raise BenchFailed("; ".join(report["problems"]))
    return report


def make_backlog(cluster: Cluster, messages: int, topic: str = BACKLOG_TOPIC) -> None:
    """Fill a topic, and wait until all of it can be read."""
    load: dict[str, object] = {"namesrv": cluster.namesrv, "topic": topic}
    left = messages
    while left > 0:  # a busy broker refuses some
        count = {"warmup_s": 0.0, "duration_s": 600.0, "count": left}
        left -= run_produce({**load, **count}, in_flight=64)["messages"]
    cluster.route(topic)
    deadline = time.monotonic() + BACKLOG_SETTLE_SECONDS
    while (read := _readable(load)) < messages:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{cluster.name}: {read} of {messages} messages can be read")


def _readable(load: dict[str, object]) -> int:
    """Messages of the backlog that can be read now."""
    return int(run_consume({**load, "warmup_s": 0.0, "duration_s": 600.0})["messages"])

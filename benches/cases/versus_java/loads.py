"""What else brokers are asked for by the native client: latency to the reader, connections, oneway.

Each load's report says what it counts; `failed` is what must be 0 for its figures to be worth
anything: messages that were not sent in time, not answered, refused, lost or twice there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benches.lib.loads import settle
from benches.lib.servers import Cluster
from mqclient.cli.bench import run_connect, run_latency, run_produce
from mqstore.names import AUTO_CREATE_TOPIC

FAILURES = ("unsent", "unanswered", "refused", "lost", "duplicates", "failed", "dropped")
"""Totals of a report."""
LATENCY_IN_FLIGHT_MAX = 1024
HOLD_SECONDS = 1.0
"""All heartbeats are answered by then."""
STILL_SECONDS = 5.0
"""Whatever is not stored when nothing more was for so long, is lost. A Java broker that was flooded
may take seconds to answer where its queues end."""
ONEWAY_WINDOW = 64
ONEWAY_SECONDS_MAX = 0.5
"""A Java broker keeps what it read and did not get to in memory; a longer flood fills that."""


@dataclass(frozen=True)
class Latency:
    """Messages at a rate that all brokers keep, each from when it was due until its reader has it.

    The reader waits at the ends of the four queues, as `mqclient bench consume --tail` does. That
    would tell the same from a message's birth, to the millisecond only: there is no row of it.
    """

    rate: float

    def run(self, cluster: Cluster, seconds: float) -> dict[str, Any]:
        """Send and read at the same time; the generator's report."""
        load = {"namesrv": cluster.namesrv, "topic": "BenchLatency"}
        load |= {"warmup_s": 0.0, "duration_s": seconds}
        sends = {"load": load, "rate": self.rate, "in_flight": LATENCY_IN_FLIGHT_MAX}
        report = run_latency(sends)
        return {**report, "more": {"failed": _failed(report)}}


@dataclass(frozen=True)
class Connections:
    """So many producers at once, each of which says who it is; then all of them leave.

    A connection is open when the kernel has it, before the broker has: a broker that accepts slowly
    shows there only where the kernel's queue is full. So the time to the answer of each one's first
    heartbeat is a figure as well. No limit is measured: that server takes a thread for each.
    """

    connections: int

    def run(self, cluster: Cluster, seconds: float) -> dict[str, Any]:
        """However many seconds it takes; the generator's report, of connections."""
        load: dict[str, object] = {"namesrv": cluster.namesrv, "topic": AUTO_CREATE_TOPIC}
        held = {**load, "duration_s": HOLD_SECONDS}
        report = run_connect(held, connections=self.connections, rate=0.0)
        settle(cluster)  # it has to forget them: not in the next broker's turn
        beats = report.get("heartbeat_us", {})
        more = {f"heartbeat_{name}_us": beats.get(name) for name in ("p50", "p99")}
        unheard = self.connections - report["totals"].get("heartbeats", 0)
        latency = {name: report["latency_us"][name] for name in ("p50", "p99")}
        more["failed"] = max(unheard, _failed(report))
        return {**report, "unit": "connection", "latency_us": latency, "more": more}


@dataclass(frozen=True)
class Oneway:
    """Sends that ask for no answer, as fast as the socket takes them; those that are stored count.

    That is by how much the queues' ends have moved, over the time from the first send until they
    moved for the last time. A broker that takes more than it can store drops the rest, unsaid.
    """

    def run(self, cluster: Cluster, seconds: float) -> dict[str, Any]:
        """The generator's report, of what was stored."""
        load = {"namesrv": cluster.namesrv, "topic": "BenchOneway", "timeout_s": STILL_SECONDS}
        report = run_produce(
            {**load, "warmup_s": 0.0, "duration_s": min(seconds, ONEWAY_SECONDS_MAX)},
            oneway=True,
            in_flight=ONEWAY_WINDOW,
        )
        totals = report["totals"]
        if "stored" not in totals:
            raise RuntimeError("; ".join(report["problems"]))
        stored, sent = min(totals["stored"], totals["sent"]), totals["sent"]
        rate = stored / report["stored_seconds"]
        counted = {"messages": stored, "messages_per_second": rate, "latency_us": {}}
        more = {"sent_per_s": sent / report["seconds"], "lost_percent": 100 * (1 - stored / sent)}
        return {**report, **counted, "more": more}


def _failed(report: dict[str, Any]) -> int:
    return sum(report["totals"].get(name, 0) for name in FAILURES)

"""More loads of the native client: latency up to the reader, connections, oneway sends.

In each report `failed` must be 0, or the figures mean nothing: it counts messages that were not
sent in time, not answered, refused, lost or duplicated.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benches.lib.loads import settle
from benches.lib.servers import Cluster
from mqclient.cli.bench import run_connect, run_latency, run_produce
from mqcommon.names import AUTO_CREATE_TOPIC

FAILURES = ("unsent", "unanswered", "refused", "lost", "duplicates", "failed", "dropped")
"""Totals of a report whose sum is `failed`."""
LATENCY_IN_FLIGHT_MAX = 1024
HOLD_SECONDS = 1.0
"""Seconds that the connections stay open, so that all heartbeats are answered."""
STILL_SECONDS = 5.0
"""A message is lost if it is not stored after this many seconds without progress. A flooded Java
broker may take seconds to return the end offsets of its queues."""
ONEWAY_WINDOW = 64
ONEWAY_SECONDS_MAX = 0.5
"""Seconds of a flood at most: a Java broker keeps unprocessed requests in memory and would run out
of it."""


@dataclass(frozen=True)
class Latency:
    """Messages at a rate that all brokers reach; latency from due time to the reader.

    The reader waits at the ends of the four queues. `mqclient bench consume --tail` measures the
    same from the message's born timestamp, but only in milliseconds, so it has no row.
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
    """Opens `connections` connections at once, sends a heartbeat on each, then closes all.

    A connection counts as open once the kernel has accepted it, which is before the broker does; a
    slowly accepting broker is visible only when the kernel's queue is full. Therefore the time up
    to the answer to the first heartbeat is a figure too. The limit server is not measured, because
    it starts a thread for each connection.
    """

    connections: int

    def run(self, cluster: Cluster, seconds: float) -> dict[str, Any]:
        """Ignores `seconds`; returns the generator's report, with connections as unit."""
        load: dict[str, object] = {"namesrv": cluster.namesrv, "topic": AUTO_CREATE_TOPIC}
        held = {**load, "duration_s": HOLD_SECONDS}
        report = run_connect(held, connections=self.connections, rate=0.0)
        settle(cluster)  # its cleanup of the connections must not disturb the next broker's round
        beats = report.get("heartbeat_us", {})
        more = {f"heartbeat_{name}_us": beats.get(name) for name in ("p50", "p99")}
        unheard = self.connections - report["totals"].get("heartbeats", 0)
        latency = {name: report["latency_us"][name] for name in ("p50", "p99")}
        more["failed"] = max(unheard, _failed(report))
        return {**report, "unit": "connection", "latency_us": latency, "more": more}


@dataclass(frozen=True)
class Oneway:
    """Oneway sends as fast as the socket takes them; only stored messages count.

    The rate is the growth of the queues' end offsets, divided by the time from the first send to
    the last growth. A broker that receives more than it can store drops the rest silently.
    """

    def run(self, cluster: Cluster, seconds: float) -> dict[str, Any]:
        """Run the generator; its report, counting stored messages only."""
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

"""The NameServer's row: route requests per second for a topic of many brokers."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

from benches.cases.versus_java.rows import Figures, Measured, Session
from benches.lib.route_load import ask, registration, tell
from benches.lib.servers import Cluster
from mqcommon.wire.bodies.topics import (
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from mqcommon.wire.calls import namesrv_calls
from mqcommon.wire.frame import encode
from mqserver.embedded.raw_client import Probe

TOPIC, OTHER = "BenchRoutes", "BenchOther"
ALONE = 8
"""Connections with one request in flight each, for the percentiles."""
ALONE_SHARE = 0.25
"""Length of the load for the percentiles, as a share of a round; it follows the round."""


@dataclass(frozen=True)
class Routes:
    """Routes of a topic of `brokers` brokers; the rounds of all NameServers alternate.

    The brokers only register and stay connected. The rate is measured with all requests of `ask` in
    flight. The percentiles come from a shorter load after it, with one request in flight on each of
    a few connections: with more, they would show the time in the queue.
    """

    brokers: int
    seconds: float | None = None

    def run(self, session: Session) -> Measured:
        """Run alternating rounds while all NameServers are up."""
        measured = Measured({kind.name: [] for kind in session.kinds})
        with ExitStack() as stack:
            clusters = []
            for kind in session.kinds:
                folder = session.new_folder(kind.name)
                clusters.append(cluster := stack.enter_context(kind(folder, {})))
                probe = Probe(cluster.namesrv)
                stack.callback(probe.close)
                register(probe, self.brokers)
                _rate(cluster.namesrv, session.warmup_seconds)
            for _ in range(session.rounds):
                for cluster in clusters:
                    measured.rounds[cluster.name].append(_round(cluster, session.seconds))
        return measured


def register(probe: Probe, brokers: int) -> None:
    """Register `brokers` brokers that have the topic."""
    # RocketMQ 5 takes a registration of one topic as a change, and refuses it for a new broker.
    topics = TopicConfigSerializeWrapper(
        {name: TopicConfig(name, read_queue_nums=8, write_queue_nums=8) for name in (TOPIC, OTHER)}
    )
    for number in range(brokers):
        tell(probe, registration(number, topics))
    route = namesrv_calls.route(TOPIC)
    known = route.result(probe.call(route.request))
    found = len(known.broker_datas) if known else 0
    if found != brokers:
        raise RuntimeError(f"{found} of {brokers} brokers in the route")


def _rate(namesrv: str, seconds: float) -> float:
    """Route answers per second."""
    began = time.monotonic()
    answers = len(ask(namesrv, [encode(namesrv_calls.route(TOPIC).request)], seconds))
    return answers / (time.monotonic() - began)


def _round(cluster: Cluster, seconds: float) -> Figures:
    cpu_before = cluster.namesrv_cost.cpu_seconds()
    rate = _rate(cluster.namesrv, seconds)
    cpu = cluster.namesrv_cost.cpu_seconds() - cpu_before
    frames = [encode(namesrv_calls.route(TOPIC).request)]
    times = sorted(ask(cluster.namesrv, frames, seconds * ALONE_SHARE, ALONE, 1))
    return {
        "routes_per_s": rate,
        "p50_us": times[len(times) // 2] * 1e6,
        "p99_us": times[len(times) * 99 // 100] * 1e6,
        "namesrv_cpu_us_per_route": cpu / (rate * seconds) * 1e6,
        "namesrv_anonymous_mb": cluster.namesrv_cost.anonymous_mb(),
    }

"""The NameServer's row: routes per second of a topic that so many brokers have."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass

from benches.cases.versus_java.rows import Figures, Measured, Session
from benches.lib.route_load import ask, registration, tell
from benches.lib.servers import Cluster
from mqclient.wire import calls
from mqclient.wire.bodies.topics import (
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from mqclient.wire.frame import encode
from mqserver.probe import Probe

TOPIC, OTHER = "BenchRoutes", "BenchOther"
ALONE = 8
"""Connections with one request each."""
ALONE_SHARE = 0.25
"""Of a round's seconds, on top of them."""


@dataclass(frozen=True)
class Routes:
    """Every NameServer in turns; the topic's brokers only register, on a connection that stays.

    The rate is with all requests of `ask` in flight, whose times are those of the window; the
    percentiles are of a shorter load after it, one request on each of a few connections.
    """

    brokers: int
    seconds: float | None = None

    def run(self, session: Session) -> Measured:
        """Rounds in turns, all NameServers up all the time."""
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
    """Make `brokers` brokers known that have the topic, and nothing else."""
    # RocketMQ 5 refuses an unknown broker that registers one topic only: a change needs a whole.
    topics = TopicConfigSerializeWrapper({name: TopicConfig(name, 8, 8) for name in (TOPIC, OTHER)})
    for number in range(brokers):
        tell(probe, registration(number, topics))
    route = calls.route(TOPIC)
    known = route.result(probe.call(route.request))
    found = len(known.broker_datas) if known else 0
    if found != brokers:
        raise RuntimeError(f"{found} of {brokers} brokers in the route")


def _rate(namesrv: str, seconds: float) -> float:
    """Answers per second."""
    began = time.monotonic()
    answers = len(ask(namesrv, [encode(calls.route(TOPIC).request)], seconds))
    return answers / (time.monotonic() - began)


def _round(cluster: Cluster, seconds: float) -> Figures:
    cpu_before = cluster.namesrv_cost.cpu_seconds()
    rate = _rate(cluster.namesrv, seconds)
    cpu = cluster.namesrv_cost.cpu_seconds() - cpu_before
    frames = [encode(calls.route(TOPIC).request)]
    times = sorted(ask(cluster.namesrv, frames, seconds * ALONE_SHARE, ALONE, 1))
    return {
        "routes_per_s": rate,
        "p50_us": times[len(times) // 2] * 1e6,
        "p99_us": times[len(times) * 99 // 100] * 1e6,
        "namesrv_cpu_us_per_route": cpu / (rate * seconds) * 1e6,
        "namesrv_anonymous_mb": cluster.namesrv_cost.anonymous_mb(),
    }

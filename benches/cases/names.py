"""The NameServer with 10,000 topics: route rate, latency alone and during registrations."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from pathlib import Path

from benches.lib.crowd import topic_name
from benches.lib.harness import Report, mode_of
from benches.lib.route_load import ask, registration, tell
from benches.lib.rows import Rows
from benches.lib.servers import Ours
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.topics import (
    TopicConfig,
    TopicConfigSerializeWrapper,
)
from mqcommon.wire.calls import namesrv_calls
from mqcommon.wire.frame import encode
from mqserver.embedded.raw_client import Probe

TOPICS = {"smoke": 200, "large": 10_000}
FEW, MANY = 4, 100
"""Number of brokers that have each topic."""
ALONE = 8
"""Connections with one request in flight each, for the latency figures."""
PERIOD_S = 1.0
"""Seconds between two registrations of a broker with all topics: as often as 30 brokers do."""
ASKED = 50_000
RATE_FEW_MIN, RATE_MANY_MIN = 40_000, 10_000
P99_MS_MAX = 5.0
MEMORY_MB_MAX = 100.0
METHOD = "random topics, one round; one Python process sends requests over plain sockets"


def main(smoke: bool = False) -> None:
    """Fill a NameServer, first with few brokers per topic, then with many."""
    mode = mode_of(smoke)
    report = Report("names", mode, METHOD)
    rows = Rows(report)
    with tempfile.TemporaryDirectory(prefix="mqbench-") as folder:
        for brokers, goal in ((FEW, RATE_FEW_MIN), (MANY, RATE_MANY_MIN)):
            with Ours(Path(folder) / str(brokers), {}) as cluster:
                _measure(cluster, brokers, goal, rows, mode.name, mode.seconds)
    report.finish()


def _measure(
    cluster: Ours, brokers: int, goal: float, rows: Rows, mode: str, seconds: float
) -> None:
    topics = TOPICS[mode]
    case = f"{topics:,} topics of {brokers} brokers"
    with Probe(cluster.namesrv, timeout=30.0) as probe:
        took = [register(probe, number, topics) for number in range(brokers)]
        rows.note(f"{case}: register a new broker, median", sorted(took)[brokers // 2], "ms")
        frames = [route_frame(topics) for _ in range(min(ASKED, 5 * topics))]
        ask(cluster.namesrv, frames, seconds / 2)
        times = ask(cluster.namesrv, frames, seconds)
        rows.judge(f"{case}: routes", len(times) / seconds, "per s", goal, least=True)
        times = ask(cluster.namesrv, frames, seconds, ALONE, 1)
        rows.judge(f"{case}: p99, {ALONE} in flight", p99(times), "ms", P99_MS_MAX)
        with Registering(cluster.namesrv, brokers, topics, seconds):
            times = ask(cluster.namesrv, frames, seconds, ALONE, 1)
        rows.judge(f"{case}: p99 beside registrations", p99(times), "ms", P99_MS_MAX)
        memory = cluster.namesrv_cost.anonymous_mb()
        rows.judge(f"{case}: anonymous memory", memory, "MB", MEMORY_MB_MAX)


class Registering:
    """Registers one broker after the other, with all topics changed.

    The requests are encoded beforehand, so that encoding does not disturb the measurement.
    """

    def __init__(self, namesrv: str, brokers: int, topics: int, seconds: float) -> None:
        self._frames = [
            registration(version % brokers, wrapper_of(topics, version))
            for version in range(2, 4 + int(seconds / PERIOD_S))
        ]
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(namesrv,))

    def _run(self, namesrv: str) -> None:
        with Probe(namesrv, timeout=30.0) as probe:
            for frame in self._frames:
                tell(probe, frame)
                if self._stopped.wait(PERIOD_S):
                    return

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_error: object) -> None:
        self._stopped.set()
        self._thread.join()


def register(probe: Probe, number: int, topics: int) -> float:
    """Register broker `number` with `topics` topics; milliseconds, without building the table."""
    wrapper = wrapper_of(topics, 1)
    began = time.monotonic()
    tell(probe, registration(number, wrapper))
    return (time.monotonic() - began) * 1000


def wrapper_of(topics: int, version: int) -> TopicConfigSerializeWrapper:
    """A broker's topic table; the number of queues per topic depends on the version."""
    names = map(topic_name, range(topics))
    table = {
        name: TopicConfig(name, read_queue_nums=4 + version % 4, write_queue_nums=4)
        for name in names
    }
    return TopicConfigSerializeWrapper(table, DataVersion(version, version))


def route_frame(topics: int) -> bytes:
    """A request for the route of a random topic."""
    return encode(namesrv_calls.route(topic_name(random.randrange(topics))).request)


def p99(times: list[float]) -> float:
    """The 99th percentile, in milliseconds."""
    return sorted(times)[len(times) * 99 // 100] * 1000

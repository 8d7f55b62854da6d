"""RocketMQ's Java client as a load: one JVM that stays warm between brokers (java/src/)."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benches.lib.loads import BACKLOG_TOPIC
from benches.lib.servers import NO_TLS, Cluster
from scripts.java_rocketmq import OPEN_FLAGS, VERSUS, class_path, prepare_home
from scripts.server_process import ServerProcess

ANSWER_SECONDS_MAX = 90.0
TOPIC = "BenchJava"
_groups = itertools.count(1)


class JavaClient(ServerProcess):
    """The JVM; `call` runs one command to its end."""

    def __init__(self, home: Path) -> None:
        self._ids = itertools.count(1)
        homes = (f"-Duser.home={prepare_home(home)}", f"-Drocketmq.client.logRoot={home / 'logs'}")
        heap = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC")
        command = ["java", *heap, NO_TLS, *OPEN_FLAGS, *homes, "-cp", class_path(VERSUS), "Load"]
        super().__init__(command, cwd=home, ready="ready")

    def call(self, command: str, **fields: object) -> dict[str, Any]:
        """Run one command; raises RuntimeError with Java's message if it failed."""
        number = next(self._ids)
        self.write_line(json.dumps({"id": number, "do": command, **fields}))
        line = self.await_line(f'{{"id":{number},', ANSWER_SECONDS_MAX)
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise RuntimeError(f"{command} {fields}: {answer['error']}")
        return answer


@dataclass(frozen=True)
class JavaSend:
    """`threads` threads that send synchronously through one producer; see Sending.java.

    rate: offered messages per second, 0 for as fast as possible. in_flight: if set, this number of
    concurrent sends with callbacks instead of threads; see AsyncSending.java.
    """

    client: JavaClient
    threads: int = 1
    batch: int = 1
    body_bytes: int = 1024
    rate: float = 0.0
    in_flight: int = 0

    def run(self, cluster: Cluster, seconds: float) -> dict[str, Any]:
        """Load the cluster's broker; returns the driver's report."""
        load = {"threads": self.threads, "batch": self.batch, "bodyBytes": self.body_bytes}
        pace = {"rate": self.rate, "inFlight": self.in_flight}
        fields = {"namesrv": cluster.namesrv, "topic": TOPIC, **load, **pace}
        self.client.call("open", namesrv=cluster.namesrv)
        try:
            return self.client.call("send", **fields, seconds=seconds)
        finally:
            self.client.call("close", namesrv=cluster.namesrv)

    def at_rate(self, rate: float) -> JavaSend:
        """The same load at an offered rate."""
        return replace(self, rate=rate)


@dataclass(frozen=True)
class JavaConsume:
    """A push consumer that reads a backlog of `messages` from its start; see Backlog.java.

    at_once: most messages per call of its listener.
    """

    client: JavaClient
    messages: int
    at_once: int = 32

    def run(self, cluster: Cluster, seconds: float) -> dict[str, Any]:
        """Read the whole backlog, ignoring `seconds`; returns the driver's report."""
        group = f"bench_consumer_{next(_groups)}"
        fields = {"namesrv": cluster.namesrv, "topic": BACKLOG_TOPIC, "group": group}
        counts = {"count": self.messages, "atOnce": self.at_once}
        return self.client.call("consume", **fields, **counts)

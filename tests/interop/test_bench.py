"""`mqclient bench` drives a Java broker as it drives ours, and its report matches the broker."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import threading
from typing import Any

import pytest

from mqclient.cli.bench import run_consume
from mqclient.errors import BrokerError
from mqcommon.wire.calls.group_calls import consumer_connection, producer_connection
from tests.client.cli.test_bench_cli import report
from tests.interop.clusters import Cluster
from tests.interop.contents import Server
from tests.waiting import until

COUNT, QUEUES = 200, 4
CREATE = ("--queues", str(QUEUES))
"""Creates the topic before its first message, and waits for its route."""
CONNECTIONS = 20
PATIENCE = ("--duration", "600", "--timeout", "60")
"""Slow runs do not fail: a load ends with its count."""
TAILED = 50

pytestmark = pytest.mark.parametrize("cluster", ["java_cluster", "our_cluster"], indirect=True)
numbers = itertools.count()


def fresh(cluster: Cluster) -> tuple[str, tuple[str, ...]]:
    """A new topic name, and the options of a load there."""
    topic = f"Bench_{cluster.broker_port}_{next(numbers)}"
    return topic, ("-n", cluster.namesrv, "-t", topic, "--warmup", "0", *PATIENCE)


def committed(cluster: Cluster, group: str, topic: str) -> int:
    """How many messages the broker says a group has consumed."""
    with Server(cluster.broker) as server:
        places = (server.committed(group, (topic, queue)) for queue in range(QUEUES))
        return sum(place or 0 for place in places)


@pytest.mark.parametrize(
    "mode",
    [
        "--threads 4",
        "--in-flight 16 --headers rocketmq",
        "--oneway --in-flight 8",
        "--batch 10 --in-flight 2",
        "--batch 10 --threads 2 --headers rocketmq",
    ],
)
def test_what_was_sent_is_stored_and_consumed(cluster: Cluster, mode: str) -> None:
    topic, here = fresh(cluster)
    load = ("--count", str(COUNT), "--body-bytes", "99", *mode.split())
    sent = report("produce", *here, *CREATE, *load)
    assert (sent["messages"], sent["bytes"], sent["refused"]) == (COUNT, COUNT * 99, {})
    totals = sent["totals"]
    assert (totals["topics_created"], totals["sent"], totals["stored"]) == (1, COUNT, COUNT)
    requests = COUNT // 10 if "--batch" in mode else COUNT
    assert sent["latency_us"]["count"] == sent["requests"] == requests
    cluster.await_stored(topic, COUNT)

    group = f"bench_{topic}"
    headers = ("--headers", "rocketmq") if "rocketmq" in mode else ()
    read = report("consume", *here, "--threads", "2", "--commit", "-g", group, *headers)
    assert (read["messages"], read["totals"]["missing"], read["errors"]) == (COUNT, 0, {})
    assert until(lambda: committed(cluster, group, topic) == COUNT)


def test_a_tail_reads_what_arrives_and_nothing_of_the_backlog(cluster: Cluster) -> None:
    topic, here = fresh(cluster)
    report("produce", *here, *CREATE, "--count", str(COUNT))
    cluster.await_stored(topic, COUNT)
    place = {"namesrv": cluster.namesrv, "topic": topic, "timeout_s": 60.0}
    load: dict[str, object] = {**place, "warmup_s": 0.0, "duration_s": 600.0, "count": TAILED}
    read: dict[str, Any] = {}

    def follow() -> None:
        read.update(run_consume(load, tail=True))

    tail = threading.Thread(target=follow, daemon=True)
    tail.start()
    arrived = itertools.count(10, 10)

    def is_over() -> bool:  # tail does not report its start: earlier messages are backlog
        report("produce", *here, "--count", "10")
        next(arrived)
        return not tail.is_alive()

    assert until(is_over)
    tail.join()
    assert read["problems"] == []
    more = next(arrived) - 10
    assert TAILED <= read["messages"] == read["latency_us"]["count"] <= more
    assert read["totals"]["received"] == read["messages"]
    cluster.await_stored(topic, COUNT + more)


def test_latency_is_told_of_every_message(cluster: Cluster) -> None:
    topic, here = fresh(cluster)
    load = ("--count", str(COUNT), "--rate", "0", "--in-flight", "4", "--readers", "2")
    found = report("latency", *here, *load)
    totals = found["totals"]
    assert found["messages"] == totals["sent"] == totals["received"] == COUNT
    assert (totals["lost"], totals["duplicates"], totals["missing"]) == (0, 0, 0)
    assert found["latency_us"]["count"] == found["send_us"]["count"] == COUNT
    assert (
        0 < found["latency_us"]["min"] <= found["latency_us"]["p50"] <= found["latency_us"]["max"]
    )
    cluster.await_stored(topic, COUNT)


@pytest.mark.parametrize("role", ["producer", "consumer"])
def test_connections_are_made_and_known(cluster: Cluster, role: str) -> None:
    """The connections stay open until the broker lists all of them; Ctrl-C then ends the run."""
    topic, here = fresh(cluster)
    report("produce", *here, *CREATE, "--count", "1")  # the storm goes to the brokers of a topic
    group = f"bench_{topic}"
    storm = ("--connections", str(CONNECTIONS), "--rate", "0", "--heartbeat", "0.1", "-g", group)
    place = ("-n", cluster.namesrv, "-t", topic, *PATIENCE, "--role", role, "--output", "json")
    command = [sys.executable, "-m", "mqclient.cli", "bench", "connect", *place, *storm]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as load:
        try:
            assert until(lambda: known(cluster, role, group) == CONNECTIONS)
            load.send_signal(signal.SIGINT)
            out, _ = load.communicate(timeout=60)
        finally:
            load.kill()
    (found,) = json.loads(out)
    totals = found["totals"]
    assert (load.returncode, found["problems"], found["refused"]) == (0, [], {})
    assert totals["tried"] == totals["connected"] == found["latency_us"]["count"] == CONNECTIONS
    assert totals["heartbeats"] == found["heartbeat_us"]["count"] > 0


def test_connections_that_say_nothing_are_made(cluster: Cluster) -> None:
    topic, here = fresh(cluster)
    report("produce", *here, *CREATE, "--count", "1")
    place = ("-n", cluster.namesrv, "-t", topic, "--duration", "0", "--role", "silent")
    found = report("connect", *place, "--connections", str(CONNECTIONS), "--rate", "0")
    assert found["totals"]["connected"] == found["latency_us"]["count"] == CONNECTIONS
    assert "heartbeats" not in found["totals"]


def known(cluster: Cluster, role: str, group: str) -> int:
    """The number of clients of a group that the broker lists; 0 if the group does not exist yet."""
    with Server(cluster.broker) as server:
        try:
            if role == "consumer":
                clients = server.ask(consumer_connection(group)).connection_set
            else:
                clients = server.ask(producer_connection(group)).connection_set
        except BrokerError:
            return 0
    return len({client.client_id for client in clients})

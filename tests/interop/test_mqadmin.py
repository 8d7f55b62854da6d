"""Java's mqadmin and ours, each against Java servers and ours: four times the same text."""

from __future__ import annotations

import pytest

from tests.interop.clusters import Cluster
from tests.interop.contents import Server
from tests.interop.java_driver import JavaDriver
from tests.interop.java_mqadmin import run_ours
from tests.interop.masks import masked, without_totals
from tests.waiting import until

TOPIC, GROUP = "AdminTopic", "admin_group"
COMMANDS = [
    "topicRoute -t AdminTopic",
    "topicRoute -t AdminTopic -l",
    "topicStatus -t AdminTopic",
    "topicList -c",
    "clusterList",
    "clusterList -m",
    "consumerProgress -g admin_group",
    "consumerProgress",
    "queryMsgById -i {msg_id}",
    "updateTopic -c DefaultCluster -t AdminMade -r 3 -w 3",
    "updateTopic -b {broker} -t AdminMade -r 2 -w 2 -p 4",
    "updateTopic -c DefaultCluster -t AdminOrder -o true",
]
"""brokerConsumeStats is missing: in Java it cannot connect a second time in one JVM."""


class Prepared:
    """A cluster with a topic, messages and a group; the same on every cluster."""

    def __init__(self, cluster: Cluster, driver: JavaDriver) -> None:
        self.cluster = cluster
        cluster.create_topic(driver, TOPIC)
        results = driver.produce(cluster.namesrv, TOPIC, 12, keys="admin-")
        consumer = driver.consume(cluster.namesrv, GROUP, TOPIC)
        consumer.await_messages(12)
        consumer.stop()  # commits, without waiting for an answer
        with Server(cluster.broker) as server:
            assert until(lambda: committed(server) == 12), committed(server)
        self.message_id = results[5]["offsetMsgId"]

    def words(self, line: str) -> list[str]:
        filled = line.format(msg_id=self.message_id, broker=self.cluster.broker)
        return [*filled.split(), "-n", self.cluster.namesrv]


def committed(server: Server) -> int:
    """How many messages of the topic its group has consumed."""
    return sum(server.committed(GROUP, (TOPIC, queue_id)) or 0 for queue_id in range(4))


@pytest.fixture(scope="module")
def at_java(java_cluster: Cluster, java_driver: JavaDriver) -> Prepared:
    return Prepared(java_cluster, java_driver)


@pytest.fixture(scope="module")
def at_ours(our_cluster: Cluster, java_driver: JavaDriver) -> Prepared:
    return Prepared(our_cluster, java_driver)


def own_lines(text: str) -> list[str]:
    """Lines without those about topics and groups of other tests.

    Nor about the retry topic: whether a group has an offset there is a race inside the client.
    """
    kept = [line for line in text.splitlines() if TOPIC in line or GROUP in line]
    return [line for line in kept if not line.startswith("%RETRY%")] or text.splitlines()


@pytest.mark.parametrize("line", COMMANDS)
def test_our_mqadmin_prints_what_java_s_prints(
    line: str, at_java: Prepared, java_driver: JavaDriver
) -> None:
    command = at_java.words(line)
    theirs, ours = java_driver.admin(*command), run_ours(*command)
    assert masked(ours).rstrip("\n") == masked(theirs).rstrip("\n")


@pytest.mark.parametrize("line", COMMANDS)
def test_java_s_mqadmin_sees_no_difference_in_our_servers(
    line: str, at_java: Prepared, at_ours: Prepared, java_driver: JavaDriver
) -> None:
    texts = [
        own_lines(without_totals(masked(java_driver.admin(*prepared.words(line)))))
        for prepared in (at_java, at_ours)
    ]
    assert texts[1] == texts[0]


def test_system_topics_are_java_s(
    java_cluster: Cluster, our_cluster: Cluster, java_driver: JavaDriver
) -> None:
    """A fresh broker registers the topics that RocketMQ registers."""
    system = []
    for cluster in (java_cluster, our_cluster):
        names = java_driver.admin("topicList", "-n", cluster.namesrv).split()
        system.append({n for n in names if n.isupper() or n in ("broker-a", "DefaultCluster")})
    assert system[1] == system[0]


def test_statistics_are_java_s(
    java_cluster: Cluster, our_cluster: Cluster, java_driver: JavaDriver
) -> None:
    """statsAll of a topic that is only sent to: its items exist at once."""
    texts = []
    for cluster in (java_cluster, our_cluster):
        cluster.create_topic(java_driver, "StatsTopic")
        java_driver.produce(cluster.namesrv, "StatsTopic", 5)
        text = java_driver.admin("statsAll", "-n", cluster.namesrv, "-t", "StatsTopic")
        texts.append(masked(text))
    assert texts[1] == texts[0]
    assert "StatsTopic 0 RATE SUM NO_CONSUMER" in texts[0]


def test_runtime_figures_are_java_s(
    java_cluster: Cluster, our_cluster: Cluster, java_driver: JavaDriver
) -> None:
    """brokerStatus shows the same keys; ours has some more."""
    keys = []
    for cluster in (java_cluster, our_cluster):
        text = java_driver.admin("brokerStatus", "-n", cluster.namesrv, "-b", cluster.broker)
        names = {line.partition(":")[0].strip() for line in text.splitlines() if ":" in line}
        # The store's folder is part of one key; delay levels appear when they are used.
        keys.append({n for n in names if "/" not in n and not n.startswith("scheduleMessage")})
    assert not keys[0] - keys[1]

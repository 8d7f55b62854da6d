"""The harness itself: Java clients against Java servers, so that a red test means our fault."""

from __future__ import annotations

from tests.interop.clusters import Cluster
from tests.interop.java_driver import JavaDriver
from tests.waiting import until


def test_java_to_java(java_cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = java_cluster.create_topic(java_driver, "HarnessTopic")
    results = java_driver.produce(java_cluster.namesrv, topic, 5, keys="k")
    assert [result["status"] for result in results] == ["SEND_OK"] * 5

    consumer = java_driver.consume(java_cluster.namesrv, "harness_group", topic)
    messages = sorted(consumer.await_messages(5), key=lambda message: message["physicalOffset"])
    consumer.stop()
    assert [message["body"] for message in messages] == [f"Hello RocketMQ {i}" for i in range(5)]


def test_java_admin(java_cluster: Cluster, java_driver: JavaDriver) -> None:
    printed = ""

    def is_told() -> bool:  # a broker of Java's fails to say how it is in its first second
        nonlocal printed
        printed = java_driver.admin("clusterList", "-n", java_cluster.namesrv)
        return "V4_9_7" in printed

    assert until(is_told), printed
    assert java_cluster.broker in printed

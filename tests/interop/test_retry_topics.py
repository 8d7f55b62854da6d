"""A new group's retry topic is known to Java clients as soon as the group is."""

from __future__ import annotations

import time

import pytest

from tests.interop.clusters import Cluster
from tests.interop.java_driver import JavaDriver

STARTS = 20
LEVEL_3_S = 10
LATE_S = 20
"""RocketMQ's own brokers take 10 to 20 s: the level, and the rest of a period of rebalancing."""

AT = pytest.mark.parametrize("cluster", ["our_cluster", "our_broker_at_java"], indirect=True)


@AT
def test_retry_topic_queues_are_known_right_after_the_start(
    cluster: Cluster, java_driver: JavaDriver
) -> None:
    topic = cluster.create_topic(java_driver, "RetryQueues")
    for number in range(STARTS):
        group = f"fresh_{number}"
        consumer = java_driver.consume(cluster.namesrv, group, topic, retryQueues=True)
        (found,) = java_driver.await_events(consumer._id, "retryQueues", 1, 60.0)
        assert found["queues"] == 1, f"start {number + 1} of {STARTS}"
        consumer.stop()


@AT
@pytest.mark.soak
def test_a_message_of_level_3_comes_back_in_time(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, "RetryLater")
    consumer = java_driver.consume(cluster.namesrv, "retry_later", topic, failures=1, delayLevel=3)
    java_driver.produce(cluster.namesrv, topic, 1)
    consumer.await_messages(1)
    began = time.monotonic()
    again = consumer.await_messages(2)[1]
    took_s = time.monotonic() - began
    assert again["reconsumeTimes"] == 1
    assert LEVEL_3_S - 1 <= took_s < LATE_S
    consumer.stop()

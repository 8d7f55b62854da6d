"""Java producers and push consumers against our servers, in both header serialisations."""

from __future__ import annotations

from collections import Counter

import pytest

from mqcommon.message import parse_offset_msg_id
from tests.interop.clusters import Cluster
from tests.interop.java_driver import JavaDriver

WALK_THROUGH_CRCS = [
    *(613185359, 1401636825, 1250039395, 1032136437, 601994070),
    *(1424393152, 1307562618, 988340972, 710410109, 1565577195),
]
OURS = ["our_cluster", "our_broker_at_java", "java_broker_at_ours"]

pytestmark = pytest.mark.parametrize("cluster", OURS, indirect=True)


def name(kind: str, cluster: Cluster, driver: JavaDriver) -> str:
    """A topic or group of this test's own."""
    return f"{kind}_{driver.serialize}_{cluster.broker_port}"


def test_ten_messages(cluster: Cluster, either_driver: JavaDriver) -> None:
    driver = either_driver
    topic = cluster.create_topic(driver, name("Ten", cluster, driver))
    results = driver.produce(cluster.namesrv, topic, 10, keys="order-")
    assert [result["status"] for result in results] == ["SEND_OK"] * 10
    assert Counter(result["queueId"] for result in results).keys() == {0, 1, 2, 3}
    ids = [parse_offset_msg_id(result["offsetMsgId"]) for result in results]
    assert {(found.host, found.port) for found in ids} == {("127.0.0.1", cluster.broker_port)}

    consumer = driver.consume(cluster.namesrv, name("ten", cluster, driver), topic)
    messages = sorted(consumer.await_messages(10), key=lambda message: message["physicalOffset"])
    consumer.stop()
    assert [message["body"] for message in messages] == [f"Hello RocketMQ {i}" for i in range(10)]
    assert [message["bodyCrc"] for message in messages] == WALK_THROUGH_CRCS
    assert [message["keys"] for message in messages] == [f"order-{i}" for i in range(10)]
    assert [message["msgId"] for message in messages] == [result["msgId"] for result in results]
    assert [m["physicalOffset"] for m in messages] == [found.physical_offset for found in ids]
    assert {message["properties"]["CLUSTER"] for message in messages} == {"DefaultCluster"}


def test_batches_and_compressed_bodies(cluster: Cluster, either_driver: JavaDriver) -> None:
    driver = either_driver
    topic = cluster.create_topic(driver, name("Bulk", cluster, driver))
    (batch,) = driver.produce(cluster.namesrv, topic, 5, batch=True, body="batch ")
    assert batch["status"] == "SEND_OK"
    assert batch["offsetMsgId"].count(",") == 4
    driver.produce(cluster.namesrv, topic, 2, padding=9000, body="long ")

    consumer = driver.consume(cluster.namesrv, name("bulk", cluster, driver), topic)
    bodies = {message["body"] for message in consumer.await_messages(7)}
    consumer.stop()
    assert bodies == {f"batch {i}" for i in range(5)} | {f"long {i}{'x' * 9000}" for i in range(2)}


def test_tags_choose(cluster: Cluster, either_driver: JavaDriver) -> None:
    driver = either_driver
    topic = cluster.create_topic(driver, name("Tags", cluster, driver))
    group = name("tags", cluster, driver)
    consumer = driver.consume(cluster.namesrv, group, topic, tags="TagB || TagC")
    for tag in ("TagA", "TagB", "TagC"):
        driver.produce(cluster.namesrv, topic, 4, tags=tag, body=f"{tag} ")
    bodies = {message["body"] for message in consumer.await_messages(8)}
    consumer.stop()
    assert bodies == {f"{tag} {i}" for tag in ("TagB", "TagC") for i in range(4)}


def test_a_waiting_consumer_hears_of_new_messages_at_once(
    cluster: Cluster, either_driver: JavaDriver
) -> None:
    driver = either_driver
    topic = cluster.create_topic(driver, name("Hold", cluster, driver), queues=1)
    consumer = driver.consume(cluster.namesrv, name("hold", cluster, driver), topic)
    driver.produce(cluster.namesrv, topic, 1)
    consumer.await_messages(1)  # it has its queue now
    for count in range(2, 5):
        driver.produce(cluster.namesrv, topic, 1)
        assert len(consumer.await_messages(count, timeout=14)) == count, "before its pull ends"
    consumer.stop()


def test_a_failed_message_comes_again(cluster: Cluster, java_driver: JavaDriver) -> None:
    driver = java_driver
    topic = cluster.create_topic(driver, name("Retry", cluster, driver), queues=1)
    group = name("retry", cluster, driver)
    # The topic exists before the consumer asks for it, because it asks every 30 s only.
    cluster.create_topic(driver, f"%RETRY%{group}", queues=1)
    consumer = driver.consume(cluster.namesrv, group, topic, failures=1)
    driver.produce(cluster.namesrv, topic, 2)
    messages = consumer.await_messages(4)
    consumer.stop()
    assert {message["topic"] for message in messages} == {topic}
    times = Counter((message["body"], message["reconsumeTimes"]) for message in messages)
    assert times == {(f"Hello RocketMQ {i}", n): 1 for i in range(2) for n in range(2)}


def test_a_group_shares_its_queues_and_goes_on_where_it_was(
    cluster: Cluster, java_driver: JavaDriver, java_driver_binary: JavaDriver
) -> None:
    topic = cluster.create_topic(java_driver, name("Share", cluster, java_driver))
    group = name("share", cluster, java_driver)
    first = java_driver.consume(cluster.namesrv, group, topic)
    java_driver.produce(cluster.namesrv, topic, 8, body="one ")
    first.await_messages(8)
    second = java_driver_binary.consume(cluster.namesrv, group, topic)
    first.stop()  # commits and leaves: the second gets every queue
    java_driver.produce(cluster.namesrv, topic, 8, body="two ")
    second.await_bodies({f"two {i}" for i in range(8)})
    second.stop()


def test_a_topic_is_created_on_demand(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = name("OnDemand", cluster, java_driver)
    # Twice as many as queues, because a client restarts its rotation after a route update.
    results = java_driver.produce(cluster.namesrv, topic, 8)
    assert {result["queueId"] for result in results} == {0, 1, 2, 3}
    assert '"writeQueueNums":4' in cluster.await_route(java_driver, topic)

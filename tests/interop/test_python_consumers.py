"""Seek, lag, "latest" and patterns of our consumers, at our servers and at Java's."""

from __future__ import annotations

import re
import threading
from datetime import UTC, datetime, timedelta

import pytest

from mqclient import Connection, LitePullConsumer, Message, Producer, PushConsumer, ReceivedMessage
from tests.interop.clusters import OUR_CLIENTS_AT, Cluster
from tests.interop.java_driver import JavaDriver
from tests.waiting import answer_of, until

pytestmark = pytest.mark.parametrize("cluster", OUR_CLIENTS_AT, indirect=True)
DEADLINE = 90


@pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])
def test_a_seek_back_is_what_mqadmin_sees(
    cluster: Cluster, java_driver: JavaDriver, orderly: bool
) -> None:
    name = f"Sought_{orderly}_{cluster.broker_port}"
    topic = cluster.create_topic(java_driver, name, queues=1)
    bodies: list[bytes] = []
    with Producer(cluster.namesrv) as producer:
        for number in range(5):
            producer.send(Message(topic, b"%d" % number))
    options = {"consume_from": "earliest", "orderly": orderly, "commit_interval": 0.05}
    with PushConsumer(f"g_{name}", cluster.namesrv, **options) as consumer:
        consumer.on_message(topic)(lambda message: bodies.append(message.body))
        assert until(lambda: len(bodies) == 5)
        (queue,) = consumer.wait_assigned(DEADLINE)
        assert until(lambda: consumer.position(queue) == 5)
        assert until(lambda: consumer.committed(queue) == 5)
        consumer.pause([queue])
        consumer.seek(queue, 2)
        lag = consumer.lag()[queue]
        assert (lag.position, lag.end, lag.messages) == (2, 5, 3)
        assert 0 < lag.seconds < DEADLINE
        assert until(lambda: consumer.committed(queue) == 2), "the broker takes the step back"
        found = consumer.offsets_for_times({queue: datetime.now(UTC) + timedelta(hours=1)})
        assert found == {queue: None}
    words = ("consumerProgress", "-n", cluster.namesrv, "-g", f"g_{name}")
    printed = answer_of(lambda: java_driver.admin(*words), lambda text: topic[:20] in text)
    (row,) = [line.split() for line in printed.splitlines() if line.startswith(topic[:20])]
    assert row[3:5] == ["5", "2"], printed


def test_latest_is_the_end_or_a_warning(
    cluster: Cluster, java_driver: JavaDriver, request: pytest.FixtureRequest, caplog
) -> None:
    topic = cluster.create_topic(java_driver, f"Young_{cluster.broker_port}", queues=1)
    is_java4 = request.node.callspec.params["cluster"] == "java_cluster"
    bodies: list[bytes] = []
    got_new = threading.Event()

    def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body)
        if message.body == b"new":
            got_new.set()

    with Producer(cluster.namesrv) as producer:
        for _ in range(3):
            producer.send(Message(topic, b"old"))
        with LitePullConsumer(None, cluster.namesrv) as reader:
            (queue,) = reader.queues(topic)
            assert until(lambda: reader.end_offsets([queue]) == {queue: 3})
        consumer = PushConsumer(f"g_young_{cluster.broker_port}", cluster.namesrv)
        consumer.on_message(topic)(handle)
        with consumer:
            consumer.wait_assigned(DEADLINE)
            producer.send(Message(topic, b"new"))
            assert got_new.wait(DEADLINE)
            assert until(lambda: len(bodies) == (4 if is_java4 else 1))
    assert ("3 old messages may be delivered" in caplog.text) == is_java4


def test_a_pattern_finds_topics_and_none_of_the_brokers_own(
    cluster: Cluster, java_driver: JavaDriver
) -> None:
    prefix = f"Pattern_{cluster.broker_port}"
    first = cluster.create_topic(java_driver, f"{prefix}_a", queues=1)
    system = "TBW102|BenchmarkTest|SELF_TEST_TOPIC|broker-a|DefaultCluster|RMQ_SYS.*|%.*"
    seen: list[str] = []
    consumer = PushConsumer(
        f"g_{prefix}",
        cluster.namesrv,
        consume_from="earliest",
        connection=Connection(route_poll_interval=0.2),
    )
    consumer.on_message(re.compile(f"{prefix}_.*|{system}"))(
        lambda message: seen.append(message.topic)
    )
    with consumer, Producer(cluster.namesrv) as producer:
        consumer.wait_assigned(DEADLINE)
        assert list(consumer.subscription()) == [first]
        second = cluster.create_topic(java_driver, f"{prefix}_b", queues=1)
        for topic in (first, second):
            producer.send(Message(topic, b"x"))
        assert until(lambda: sorted(seen) == [first, second])

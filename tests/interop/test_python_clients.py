"""Our producer and push consumer against Java servers, and beside Java clients on any server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from mqclient import Compression, ConsumeContext, Message, Producer, PushConsumer
from mqclient.settings.values import Method
from mqcommon.message import ReceivedMessage
from tests.interop.clusters import OUR_CLIENTS_AT, Cluster
from tests.interop.java_driver import JavaDriver

CLUSTERS = [*OUR_CLIENTS_AT, "our_broker_at_java", "java_broker_at_ours"]

pytestmark = pytest.mark.parametrize("cluster", CLUSTERS, indirect=True)


class Inbox:
    """Records the messages of a handler; `await_messages` waits for a number of them."""

    def __init__(self) -> None:
        self._messages: list[ReceivedMessage] = []
        self._arrival = threading.Condition()

    def handle(self, messages: list[ReceivedMessage], context: object) -> None:
        with self._arrival:
            self._messages += messages
            self._arrival.notify_all()

    def await_messages(self, count: int, timeout: float = 90.0) -> list[ReceivedMessage]:
        with self._arrival:
            came = self._arrival.wait_for(lambda: len(self._messages) >= count, timeout)
            assert came, f"{len(self._messages)} of {count}: {self._messages}"
            return list(self._messages)


@contextmanager
def listening(cluster: Cluster, group: str, topic: str, tags: str = "*") -> Iterator[Inbox]:
    inbox = Inbox()
    with PushConsumer(group, cluster.namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(topic, tags, inbox.handle)
        yield inbox


def test_ours_to_ours(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, f"OursToOurs_{cluster.broker_port}")
    with Producer(cluster.namesrv) as producer:
        sent = [
            producer.send(Message(topic, f"Hello {i}".encode(), tags="TagA", keys=f"k{i}"))
            for i in range(10)
        ]
    assert {result.status.name for result in sent} == {"SEND_OK"}
    with listening(cluster, f"ours_to_ours_{cluster.broker_port}", topic) as inbox:
        messages = sorted(inbox.await_messages(10), key=lambda message: message.commit_log_offset)
    assert [message.body for message in messages] == [f"Hello {i}".encode() for i in range(10)]
    assert [message.msg_id for message in messages] == [result.msg_id for result in sent]
    assert [m.offset_msg_id for m in messages] == [result.offset_msg_id for result in sent]


def test_ours_to_java(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, f"OursToJava_{cluster.broker_port}")
    group = f"ours_to_java_{cluster.broker_port}"
    consumer = java_driver.consume(cluster.namesrv, group, topic, tags="TagA")
    with Producer(cluster.namesrv) as producer:
        for i in range(4):
            producer.send(Message(topic, f"Hello {i}".encode(), tags="TagA"))
            producer.send(Message(topic, b"for others", tags="TagB"))
    compressions: tuple[Method, ...] = ("zlib", "lz4", "zstd")
    for kind in compressions:
        with Producer(cluster.namesrv, compression=Compression(kind)) as producer:
            producer.send(Message(topic, f"{kind} ".encode() * 2000, tags="TagA"))
    bodies = {message["body"] for message in consumer.await_messages(7)}
    consumer.stop()
    expected = {f"Hello {i}" for i in range(4)} | {f"{kind} " * 2000 for kind in compressions}
    assert bodies == expected


def test_java_to_ours(cluster: Cluster, java_driver_binary: JavaDriver) -> None:
    driver = java_driver_binary
    topic = cluster.create_topic(driver, f"JavaToOurs_{cluster.broker_port}")
    with listening(cluster, f"java_to_ours_{cluster.broker_port}", topic, "TagA") as inbox:
        driver.produce(cluster.namesrv, topic, 4, keys="k")
        driver.produce(cluster.namesrv, topic, 4, tags="TagB")
        driver.produce(cluster.namesrv, topic, 1, padding=9000, body="long ")
        driver.produce(cluster.namesrv, topic, 3, batch=True, body="batch ")
        messages = inbox.await_messages(8)
    bodies = {message.body.decode() for message in messages}
    expected = {f"Hello RocketMQ {i}" for i in range(4)} | {f"batch {i}" for i in range(3)}
    assert bodies == expected | {f"long 0{'x' * 9000}"}


def test_a_group_of_both_shares_its_queues(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, f"Shared_{cluster.broker_port}")
    group = f"shared_{cluster.broker_port}"
    with listening(cluster, group, topic) as inbox:
        java_driver.produce(cluster.namesrv, topic, 4, body="one ")
        inbox.await_messages(4)
        other = java_driver.consume(cluster.namesrv, group, topic)
        for turn in range(30):  # until a message goes to one of the other's queues
            java_driver.produce(cluster.namesrv, topic, 4, body=f"turn {turn} ")
            if java_driver.wait_for(lambda: bool(other.messages), 1.0):
                break
        assert len(other.messages) < 4 * (turn + 1) + 4, "the Java member took every queue"
        seen = len(inbox.await_messages(4))
        # Twice as many as queues, because a client restarts its rotation after a route update.
        java_driver.produce(cluster.namesrv, topic, 8, body="both ")
        inbox.await_messages(seen + 1)
    java_driver.produce(cluster.namesrv, topic, 4, body="last ")
    other.await_bodies({f"last {i}" for i in range(4)})
    other.stop()


def test_a_failed_message_comes_again(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, f"OurRetry_{cluster.broker_port}", queues=1)
    inbox = Inbox()

    def fail_first(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        inbox.handle(messages, context)
        if messages[0].reconsume_times == 0:
            context.delay_level = 1
            raise RuntimeError("not yet")

    group = f"our_retry_{cluster.broker_port}"
    with PushConsumer(group, cluster.namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(topic, "*", fail_first)
        java_driver.produce(cluster.namesrv, topic, 1)
        messages = inbox.await_messages(2)
    assert [message.reconsume_times for message in messages] == [0, 1]
    assert {message.topic for message in messages} == {topic}

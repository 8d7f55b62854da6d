"""Requests and replies between our clients and Java's, at both brokers."""

from __future__ import annotations

import threading

import pytest

from mqclient import ClientTimeout, Message, Producer, PushConsumer, reply
from mqclient import aio as mqaio
from tests.interop.clusters import OUR_CLIENTS_AT, Cluster
from tests.interop.java_driver import JavaDriver

pytestmark = pytest.mark.parametrize("cluster", OUR_CLIENTS_AT, indirect=True)


async def test_a_java_consumer_answers_ours(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, f"PyAsks_{cluster.broker_port}")
    group = f"py_asks_{cluster.broker_port}"
    consumer = java_driver.consume(cluster.namesrv, group, topic, answer="answer to ")
    async with mqaio.Producer(cluster.namesrv) as producer:
        for number in range(3):
            question = Message(topic, b"question %d" % number)
            answer = await producer.request(question, timeout=60)
            assert answer.body == b"answer to question %d" % number
            assert answer.topic == "DefaultCluster_REPLY_TOPIC"
    consumer.stop()


def test_our_consumer_answers_java_and_ours(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, f"PyAnswers_{cluster.broker_port}")
    silent = threading.Event()
    with Producer(cluster.namesrv) as producer:

        def handle(messages, context):
            for message in messages:
                if message.body == b"silence":
                    silent.set()
                else:
                    producer.send(reply(message, b"answer to " + message.body), timeout=60)

        group = f"py_answers_{cluster.broker_port}"
        with PushConsumer(group, cluster.namesrv, consume_from="earliest") as consumer:
            consumer.subscribe(topic, "*", handle)
            consumer.wait_assigned(60)
            done = java_driver.call("request", namesrv=cluster.namesrv, topic=topic, body="Java?")
            assert done["body"] == "answer to Java?"
            large = b"ours?" * 2000  # compressed on its way
            assert producer.request(Message(topic, large), timeout=60).body == b"answer to " + large
            with pytest.raises(ClientTimeout, match="no reply"):
                producer.request(Message(topic, b"silence"), timeout=2)
            assert silent.wait(60)

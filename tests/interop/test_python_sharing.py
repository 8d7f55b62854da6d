"""Python clients that share one connection and client id, and gathered sends, at both brokers."""

from __future__ import annotations

import asyncio
import threading

import pytest

from mqclient import Linger, Message, Producer, PushConsumer, reply
from mqclient import aio as mqaio
from tests.interop.clusters import OUR_CLIENTS_AT, Cluster
from tests.interop.java_driver import JavaDriver

pytestmark = pytest.mark.parametrize("cluster", OUR_CLIENTS_AT, indirect=True)


def test_clients_with_one_id_come_and_go(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, f"PyShares_{cluster.broker_port}")
    with Producer(cluster.namesrv) as asking, Producer(cluster.namesrv) as answering:

        def answer(messages, _context):
            for message in messages:
                if message.body.startswith(b"question"):
                    answering.send(reply(message, b"answer"), timeout=60)

        seen: list[bytes] = []
        last = threading.Event()

        def note(messages, _context):
            seen.extend(message.body for message in messages)
            if b"last" in seen:
                last.set()

        groups = [f"py_shares_{name}_{cluster.broker_port}" for name in "ab"]
        options = {"consume_from": "earliest"}
        answers, notes = (PushConsumer(group, cluster.namesrv, **options) for group in groups)
        answers.subscribe(topic, "*", answer)
        notes.subscribe(topic, "*", note)
        with notes:
            with answers:
                clients = (asking, answering, answers, notes)
                assert len({client.client_id for client in clients}) == 1
                assert asking.request(Message(topic, b"question 1"), timeout=60).body == b"answer"
                with Producer(cluster.namesrv) as third:
                    assert third.client_id == asking.client_id
                assert asking.request(Message(topic, b"question 2"), timeout=60).body == b"answer"
            asking.send(Message(topic, b"last"))
            assert last.wait(60)
            assert notes.assignment()


async def test_gathered_sends_have_results_of_their_own(
    cluster: Cluster, java_driver: JavaDriver
) -> None:
    topic = cluster.create_topic(java_driver, f"PyLingers_{cluster.broker_port}")
    async with mqaio.Producer(cluster.namesrv, linger=Linger(0.05)) as producer:
        queue = (await producer.queues(topic))[0]
        sends = (producer.send(Message(topic, b"%d" % i), queue=queue) for i in range(100))
        results = await asyncio.gather(*sends)
    first = results[0].queue_offset
    assert [result.queue_offset - first for result in results] == list(range(100))
    assert len({result.offset_msg_id for result in results}) == 100
    async with mqaio.LitePullConsumer(None, cluster.namesrv, consume_from="earliest") as reader:
        reader.assign([queue])
        bodies = [(await anext(reader)).body for _ in range(100)]
    assert bodies == [b"%d" % i for i in range(100)]

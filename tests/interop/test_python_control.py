"""RocketMQ's mqadmin reads and controls our consumer, at our servers and at Java's."""

from __future__ import annotations

import re
import threading

import pytest

from mqclient import Message, Producer, PushConsumer
from mqcommon.message import ReceivedMessage
from tests.interop.clusters import OUR_CLIENTS_AT, Cluster
from tests.interop.java_driver import JavaDriver
from tests.waiting import answer_of, until

pytestmark = [
    pytest.mark.parametrize("cluster", OUR_CLIENTS_AT, indirect=True),
    pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"]),
]
DEADLINE = 90


def test_mqadmin_asks_and_steers_a_consumer(
    cluster: Cluster, java_driver: JavaDriver, orderly: bool
) -> None:
    name = f"Steered_{orderly}_{cluster.broker_port}"
    topic = cluster.create_topic(java_driver, name, queues=1)
    group = f"g_{name}"
    bodies: list[bytes] = []
    came_directly = threading.Event()
    direct = False

    def handle(message: ReceivedMessage) -> None:
        bodies.append(message.body)
        if direct:
            came_directly.set()
            raise RuntimeError("boo")

    def admin(*words: str) -> str:
        return java_driver.admin(words[0], "-n", cluster.namesrv, "-g", group, *words[1:])

    with Producer(cluster.namesrv) as producer:
        sent = [producer.send(Message(topic, b"%d" % i)) for i in range(3)]
    options = {"consume_from": "earliest", "orderly": orderly, "commit_interval": 0.05}
    with PushConsumer(group, cluster.namesrv, **options) as consumer:
        consumer.on_message(topic)(handle)
        assert until(lambda: len(bodies) == 3)

        of_all = answer_of(lambda: admin("consumerStatus"), lambda t: "Rebalance OK" in t)
        assert consumer.client_id in of_all
        status = admin("consumerStatus", "-i", consumer.client_id)
        assert re.search(rf"^PROP_CONSUMEORDERLY *: {str(orderly).lower()}$", status, re.MULTILINE)
        assert re.search("^consumeFromWhere *: CONSUME_FROM_FIRST_OFFSET$", status, re.MULTILINE)
        assert f"locked={str(orderly).lower()}" in status

        words = ("resetOffsetByTime", "-t", topic, "-s", "0")  # an error before the first commit
        answer_of(lambda: admin(*words), lambda text: "broker-a" in text)
        assert until(lambda: len(bodies) >= 6)
        if orderly:
            assert bodies == [b"0", b"1", b"2"] * 2

        direct = True
        done = admin("queryMsgById", "-i", sent[1].offset_msg_id, "-d", consumer.client_id)
        assert came_directly.wait(DEADLINE), done
        assert "CR_THROW_EXCEPTION" in done
        assert f"order={str(orderly).lower()}" in done
        assert "RuntimeError: boo" in done

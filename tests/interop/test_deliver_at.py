"""`deliver_at` at a broker of RocketMQ 5, whose timer stores a message when it is due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from mqclient import LitePullConsumer, Message, Producer, ReceivedMessage, SendStatus
from tests.interop.clusters import Cluster
from tests.interop.java_driver import JavaDriver

pytestmark = pytest.mark.soak
PRECISION = timedelta(seconds=1)
"""RocketMQ 5's `timerPrecisionMs`."""


def test_a_message_arrives_when_it_is_due(java5_cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = java5_cluster.create_topic(java_driver, "DeliverAt", queues=1)
    with Producer(java5_cluster.namesrv) as producer:
        due = datetime.now(UTC) + timedelta(seconds=4)
        assert producer.send(Message(topic, b"later", deliver_at=due)).status is SendStatus.SEND_OK
        assert producer.send(Message(topic, b"at once")).status is SendStatus.SEND_OK
    with LitePullConsumer("g_due", java5_cluster.namesrv, consume_from="earliest") as reader:
        reader.subscribe(topic)
        messages: list[ReceivedMessage] = []
        while len(messages) < 2:
            messages += reader.poll(timeout=60)
    at_once, later = messages
    assert (at_once.body, later.body) == (b"at once", b"later")
    assert later.store_timestamp_ms / 1000 >= (due - PRECISION).timestamp()

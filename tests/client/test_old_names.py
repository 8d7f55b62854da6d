"""A topic whose name can no longer be created is read, listed and deleted."""

from __future__ import annotations

from pathlib import Path

import pytest

import mqstore
from mqclient import Admin, BrokerError, LitePullConsumer, PushConsumer
from mqcommon.wire.bodies.topics import TopicConfig
from mqserver import Standalone
from tests.waiting import until

OLD = "orders.of 2016"


def test_a_topic_of_an_old_name_is_read_listed_and_deleted(tmp_path: Path) -> None:
    with mqstore.Store(tmp_path, mqstore.Settings(min_free_bytes=0), create=True) as store:
        store.put(OLD, b"old")
    with Standalone(tmp_path) as mq, Admin(mq.namesrv) as admin:
        assert OLD in admin.topics.names()
        with LitePullConsumer(None, mq.namesrv, consume_from="earliest") as consumer:
            consumer.assign(consumer.queues(OLD))
            assert [message.body for message in consumer.poll(60)] == [b"old"]
        admin.topics.delete(OLD, "DefaultCluster")
        until(lambda: OLD not in admin.topics.names())
        with pytest.raises(BrokerError, match="illegal characters"):
            admin.topics.update(
                TopicConfig(OLD, read_queue_nums=1, write_queue_nums=1), cluster="DefaultCluster"
            )


@pytest.mark.parametrize("kind", [LitePullConsumer, PushConsumer])
def test_a_topic_of_an_old_name_can_be_subscribed_to(tmp_path: Path, kind: type) -> None:
    with mqstore.Store(tmp_path, mqstore.Settings(min_free_bytes=0), create=True) as store:
        store.put(OLD, b"old")
    bodies: list[bytes] = []
    with Standalone(tmp_path) as mq:
        consumer = kind("old_readers", mq.namesrv, consume_from="earliest")
        if isinstance(consumer, PushConsumer):
            consumer.on_message(OLD)(lambda message: bodies.append(message.body))
        else:
            consumer.subscribe(OLD)
        with consumer:
            if isinstance(consumer, LitePullConsumer):
                bodies += [message.body for message in consumer.poll(timeout=60)]
            assert until(lambda: bodies == [b"old"])

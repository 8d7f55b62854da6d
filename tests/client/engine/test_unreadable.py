"""A consumer warns once about a subscribed topic without read permission."""

from __future__ import annotations

import logging

import pytest

from mqclient import Admin, ClientTimeout, Connection, LitePullConsumer, PushConsumer
from mqcommon.wire.bodies.topics import TopicConfig
from mqserver import Standalone
from tests.waiting import until

DEAD_LETTERS = "%DLQ%unreadable"


def unreadable(mq: Standalone, topic: str) -> None:
    """Create a topic without read permission, as the broker creates dead-letter topics."""
    with Admin(mq.namesrv) as admin:
        admin.topics.update(
            TopicConfig(topic, read_queue_nums=1, write_queue_nums=1, perm=2),
            cluster="DefaultCluster",
        )
        until(lambda: not admin.topics.route(topic).queue_datas[0].perm & 4)


def subscribe(consumer: PushConsumer | LitePullConsumer, topic: str) -> None:
    if isinstance(consumer, PushConsumer):
        consumer.subscribe(topic, "*", print)
    else:
        consumer.subscribe(topic)


@pytest.mark.parametrize("topic", ["Unreadable", DEAD_LETTERS])
@pytest.mark.parametrize("kind", [PushConsumer, LitePullConsumer])
def test_a_subscriber_says_that_a_topic_may_not_be_read(
    kind: type[PushConsumer] | type[LitePullConsumer], topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    def said() -> list[str]:
        return [line for line in caplog.messages if "gets no messages now" in line]

    with Standalone() as mq:
        unreadable(mq, topic)
        consumer = kind(
            "readers",
            mq.namesrv,
            rebalance_interval=0.05,
            connection=Connection(route_poll_interval=0.1),
        )
        subscribe(consumer, topic)
        with caplog.at_level(logging.WARNING, "mqclient"), consumer:
            with pytest.raises(ClientTimeout, match="no broker lets its queues be read"):
                consumer.wait_assigned(2)
            (line,) = said()
            assert f"topic {topic!r} exists" in line
            with Admin(mq.namesrv) as admin:
                admin.topics.update(
                    TopicConfig(topic, read_queue_nums=1, write_queue_nums=1),
                    cluster="DefaultCluster",
                )
            assert len(consumer.wait_assigned(60)) == 1
            assert len(said()) == 1

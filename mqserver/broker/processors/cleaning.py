"""Deletions on an operator's request: 306, 316 and 329 (`AdminBrokerProcessor`)."""

from __future__ import annotations

from mqserver.broker.context import BrokerContext
from mqserver.replies import Reply, Request, Response


def clean_expired_queues(broker: BrokerContext, request: Request) -> Reply:
    """CLEAN_EXPIRED_CONSUMEQUEUE (306).

    RocketMQ removes queues whose messages are all gone, so that they restart at offset 0 under
    consumers that are further; ours lose their files but the last, and go on counting.
    """
    broker.store.clean_expired_queues()
    return Response()


def clean_unused_topics(broker: BrokerContext, request: Request) -> Reply:
    """CLEAN_UNUSED_TOPIC (316): empties the queues of topics that do not exist any more."""
    broker.store.clean_unused_topics(set(broker.topics.wrapper().topic_config_table))
    return Response()


def delete_expired_files(broker: BrokerContext, request: Request) -> Reply:
    """DELETE_EXPIRED_COMMITLOG (329): the next cleanings do not wait for the hour."""
    broker.store.clean_soon()
    return Response()

"""Codes 306, 316 and 329, deletions that an operator asks for (`AdminBrokerProcessor`)."""

from __future__ import annotations

from mqserver.broker.context import BrokerContext
from mqserver.runtime.processor_api import Reply, Request, Response


def clean_expired_queues(broker: BrokerContext, request: Request) -> Reply:
    """CLEAN_EXPIRED_CONSUMEQUEUE (306).

    RocketMQ removes queues whose messages are all deleted. Such a queue starts again at offset 0,
    while its consumers have committed higher offsets. This broker keeps the last file of such a
    queue, so that its offsets continue.
    """
    broker.store.clean_expired_queues()
    return Response()


def clean_unused_topics(broker: BrokerContext, request: Request) -> Reply:
    """CLEAN_UNUSED_TOPIC (316): deletes the messages of topics that do not exist."""
    broker.store.clean_unused_topics(set(broker.topics.wrapper().topic_config_table))
    return Response()


def delete_expired_files(broker: BrokerContext, request: Request) -> Reply:
    """DELETE_EXPIRED_COMMITLOG (329): deletes expired files soon, whatever the hour."""
    broker.store.clean_soon()
    return Response()

"""Topics whose messages a slave has, and whose settings it has not heard of.

The log comes at once, the table of topics every ten seconds. A master that dies between the two
leaves messages on its slave that nobody could read, because the slave did not know their topic.
"""

from __future__ import annotations

import logging

from mqserver.broker.context import BrokerContext
from mqserver.broker.state.loading import topics_of_queues
from mqserver.broker.state.topics import FILE
from mqstore import Store

log = logging.getLogger("mqserver.broker.replication")


def add_late_topics(context: BrokerContext, store: Store) -> None:
    """Create the topics that the table lacks, with default settings and as many queues as the log
    shows; the next copy of a master's table replaces them."""
    topics = context.topics

    def is_known(topic: str) -> bool:
        return topics.is_system(topic) or topics.get(topic) is not None

    queues = {
        topic: queue_ids
        for topic, queue_ids in store.queues().items()
        if any(store.min_offset(topic, one) < store.max_offset(topic, one) for one in queue_ids)
    }
    for row in topics_of_queues(queues, is_known).values():
        log.warning(
            "topic %s was created with default settings, because the log has its messages and the "
            "master did not say more: check its queues and permission",
            row.topic_name,
        )
        topics.put(row)
        context.saver.mark(FILE)

"""Notes on standard error about what RocketMQ's own text of a command does not show."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import suppress

from mqclient.admin import Admin
from mqclient.errors import RocketMQError

__all__ = ["note_unreadable"]


async def note_unreadable(admin: Admin, topics: Iterable[str]) -> None:
    """Name the messages that are above a topic's number of read queues."""
    for topic in topics:
        with suppress(RocketMQError):  # the topic was deleted meanwhile, or no broker answers
            found = await admin.offsets.unreadable(topic)
            if found:
                queues = ", ".join(f"{queue.broker_name}/{queue.queue_id}" for queue in found)
                least = 1 + max(queue.queue_id for queue in found)
                print(
                    f"note: topic {topic}: {sum(found.values())} messages are in queues above its "
                    f"number of read queues ({queues}), so consumers do not get them; raise the "
                    f"number: mqadmin updateTopic -t {topic} -r {least}",
                    file=sys.stderr,
                )

"""Reads queues for the commands that print messages."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mqadmin.command import Arguments
from mqadmin.java_order import queue_order
from mqadmin.java_text import moment_of
from mqclient.admin import Admin, QueuePage
from mqcommon.message import MessageQueue

__all__ = ["extent", "pages", "queue_of", "readable_queues"]

PAGE = 32
"""RocketMQ's page, and a broker's default maximum."""


def queue_of(arguments: Arguments) -> MessageQueue:
    """The queue that a topic, a brokerName and a queueId name."""
    return MessageQueue(
        arguments.required("topic"),
        arguments.required("brokerName"),
        arguments.number("queueId", 0),
    )


async def readable_queues(admin: Admin, topic: str) -> list[MessageQueue]:
    """The queues that consumers of a topic read, in the order of RocketMQ's commands."""
    route = await admin.topics.route(topic)
    return queue_order(
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.readable
        for queue_id in range(data.read_queue_nums)
    )


async def extent(admin: Admin, queue: MessageQueue, arguments: Arguments) -> tuple[int, int]:
    """The offsets to read: the whole queue, or the part between two times of the arguments."""
    begin_ms, end_ms = arguments.time_ms("beginTimestamp"), arguments.time_ms("endTimestamp")
    low = await admin.offsets.minimum(queue)
    high = await admin.offsets.maximum(queue)
    if begin_ms is not None:
        low = await admin.offsets.at_time(queue, moment_of(begin_ms))
    if end_ms is not None:
        high = await admin.offsets.at_time(queue, moment_of(end_ms))
    return low, high


async def pages(
    admin: Admin, queue: MessageQueue, low: int, high: int, *, tags: str = "*"
) -> AsyncIterator[QueuePage]:
    """The pages of a queue from offset `low` until offset `high` is reached."""
    while low < high:
        page = await admin.messages.read(queue, low, PAGE, tags=tags)
        yield page
        if page.status in ("NO_NEW_MSG", "OFFSET_ILLEGAL") or page.next_offset <= low:
            return
        low = page.next_offset

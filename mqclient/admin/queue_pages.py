"""Reads a queue page by page, without a group: joins none and commits nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from mqcommon.message import MessageQueue, ReceivedMessage, decode_reply
from mqcommon.names import TOOLS_GROUP, tags_of
from mqcommon.wire.calls import message_calls
from mqcommon.wire.calls.call import Call
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.pull import PullMessageResponseHeader

__all__ = ["PageStatus", "QueuePage", "page_call", "page_of"]

PageStatus = Literal["FOUND", "NO_NEW_MSG", "NO_MATCHED_MSG", "OFFSET_ILLEGAL"]
_STATUS: dict[int, PageStatus] = {
    ResponseCode.SUCCESS: "FOUND",
    ResponseCode.PULL_NOT_FOUND: "NO_NEW_MSG",
    ResponseCode.PULL_RETRY_IMMEDIATELY: "NO_MATCHED_MSG",
    ResponseCode.PULL_OFFSET_MOVED: "OFFSET_ILLEGAL",
}


@dataclass(frozen=True, slots=True)
class QueuePage:
    """Messages of a queue from an offset on (RocketMQ's `PullResult`).

    next_offset: where the next page begins. min_offset, max_offset: the queue's extent.
    """

    status: PageStatus
    messages: list[ReceivedMessage]
    next_offset: int
    min_offset: int
    max_offset: int


def page_call(
    queue: MessageQueue, offset: int, count: int, tags: str, group: str | None
) -> Call[Frame]:
    """The request of a page."""
    return message_calls.pull_at_once(queue, group or TOOLS_GROUP, offset, count, tags)


def page_of(reply: Frame, queue: MessageQueue, tags: str) -> QueuePage:
    """The page of a reply. The broker compares hash codes of tags; here the tags are compared."""
    header = PullMessageResponseHeader.from_fields(reply.fields)
    found, _ = decode_reply(reply.body, queue.broker_name, header.min_offset, header.max_offset)
    wanted = tags_of(tags)
    return QueuePage(
        _STATUS[reply.code],
        [message for message in found if not wanted or message.tags in wanted],
        header.next_begin_offset,
        header.min_offset,
        header.max_offset,
    )

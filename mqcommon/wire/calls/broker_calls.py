"""Calls to a broker about its groups, offsets and files; no IO. See mqcommon.wire.calls.calls."""

from __future__ import annotations

from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.common import TopicList
from mqcommon.wire.bodies.groups import ProducerTableInfo
from mqcommon.wire.bodies.offsets import GetConsumerStatusBody, ResetOffsetBody
from mqcommon.wire.bodies.running import QueryConsumeQueueResponseBody
from mqcommon.wire.bodies.topics import QueryConsumeTimeSpanBody, QueueTimeSpan
from mqcommon.wire.calls.calls import Call
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import request_frame
from mqcommon.wire.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    QueryConsumeQueueRequestHeader,
    QueryConsumeTimeSpanRequestHeader,
    ResumeCheckHalfMessageRequestHeader,
    TopicRequestHeader,
)
from mqcommon.wire.headers.clients import GetConsumerStatusRequestHeader
from mqcommon.wire.headers.offsets import CloneGroupOffsetRequestHeader, ResetOffsetRequestHeader

Table = dict[MessageQueue, int]


def delete_topic(topic: str) -> Call[None]:
    """Delete a topic of one broker, with its queues."""
    request = request_frame(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader(topic=topic))
    return Call(request, lambda reply: None)


def system_topics() -> Call[list[str]]:
    """Topics that a broker made for itself."""
    request = request_frame(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    return Call(request, lambda reply: TopicList.from_json(reply.body).topic_list)


def delete_group(group: str, *, remove_offset: bool) -> Call[None]:
    """Delete a consumer group of one broker. remove_offset: its committed offsets too."""
    header = DeleteSubscriptionGroupRequestHeader(group_name=group, remove_offset=remove_offset)
    return Call(request_frame(RequestCode.DELETE_SUBSCRIPTIONGROUP, header), lambda reply: None)


def all_producers() -> Call[ProducerTableInfo]:
    """The producers that a broker knows, by group."""
    request = request_frame(RequestCode.GET_ALL_PRODUCER_INFO)
    return Call(request, lambda reply: ProducerTableInfo.from_json(reply.body))


def reset_offset(topic: str, group: str, timestamp_ms: int, *, force: bool) -> Call[Table]:
    """Have a broker tell the members of a group to go to a store time; -1 is the end."""
    header = ResetOffsetRequestHeader(
        topic=topic, group=group, timestamp=timestamp_ms, is_force=force
    )
    request = request_frame(RequestCode.INVOKE_BROKER_TO_RESET_OFFSET, header)
    return Call(request, lambda reply: ResetOffsetBody.from_json(reply.body).offset_table)


def consumer_status(topic: str, group: str, client_id: str | None) -> Call[dict[str, Table]]:
    """The offsets of members of a group, as the members report them."""
    header = GetConsumerStatusRequestHeader(topic=topic, group=group, client_addr=client_id)
    request = request_frame(RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS, header)
    return Call(request, lambda reply: GetConsumerStatusBody.from_json(reply.body).consumer_table)


def clone_offset(source: str, target: str, topic: str, *, offline: bool) -> Call[None]:
    """Copy a group's offsets of a topic on one broker to another group."""
    header = CloneGroupOffsetRequestHeader(
        src_group=source, dest_group=target, topic=topic, offline=offline
    )
    return Call(request_frame(RequestCode.CLONE_GROUP_OFFSET, header), lambda reply: None)


def consume_time_span(topic: str, group: str) -> Call[list[QueueTimeSpan]]:
    """Store times of a topic's queues on one broker, and the position of a group."""
    header = QueryConsumeTimeSpanRequestHeader(topic=topic, group=group)
    read = QueryConsumeTimeSpanBody.from_json
    return Call(
        request_frame(RequestCode.QUERY_CONSUME_TIME_SPAN, header),
        lambda reply: read(reply.body).consume_time_span_set,
    )


def consume_queue(
    queue: MessageQueue, index: int, count: int, group: str | None
) -> Call[QueryConsumeQueueResponseBody]:
    """Entries of a consume queue from an offset on."""
    header = QueryConsumeQueueRequestHeader(
        topic=queue.topic, queue_id=queue.queue_id, index=index, count=count, consumer_group=group
    )
    request = request_frame(RequestCode.QUERY_CONSUME_QUEUE, header)
    return Call(request, lambda reply: QueryConsumeQueueResponseBody.from_json(reply.body or b"{}"))


def clean(code: RequestCode) -> Call[None]:
    """A request on which a broker deletes data that it no longer needs."""
    return Call(request_frame(code), lambda reply: None)


def resume_check(offset_msg_id: str) -> Call[None]:
    """Have a broker ask about a half message again, as if it had never asked."""
    header = ResumeCheckHalfMessageRequestHeader(msg_id=offset_msg_id)
    return Call(request_frame(RequestCode.RESUME_CHECK_HALF_MESSAGE, header), lambda reply: None)

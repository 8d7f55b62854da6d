"""Calls about offsets of queues and groups, and about queue locks."""

from __future__ import annotations

from collections.abc import Iterable

from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.offsets import (
    GetConsumerStatusBody,
    LockBatchRequestBody,
    LockBatchResponseBody,
    ResetOffsetBody,
)
from mqcommon.wire.bodies.topics import QueryConsumeTimeSpanBody, QueueTimeSpan
from mqcommon.wire.calls.call import Call, nothing
from mqcommon.wire.codes import RequestCode, ResponseCode
from mqcommon.wire.frame import Frame, request_frame
from mqcommon.wire.headers import offsets
from mqcommon.wire.headers.admin import QueryConsumeTimeSpanRequestHeader
from mqcommon.wire.headers.clients import (
    GetConsumerStatusRequestHeader,
)
from mqcommon.wire.headers.offsets import CloneGroupOffsetRequestHeader, ResetOffsetRequestHeader


def _offset(reply: Frame) -> int:
    return offsets.OffsetResponseHeader.from_fields(reply.fields).offset


def _queue_header(queue: MessageQueue) -> offsets.QueueRequestHeader:
    return offsets.QueueRequestHeader(
        topic=queue.topic, queue_id=queue.queue_id, broker_name=queue.broker_name
    )


def max_offset(queue: MessageQueue) -> Call[int]:
    """The offset the next message of a queue will get."""
    return Call(request_frame(RequestCode.GET_MAX_OFFSET, _queue_header(queue)), _offset)


def min_offset(queue: MessageQueue) -> Call[int]:
    """The smallest offset of a queue that can still be read."""
    return Call(request_frame(RequestCode.GET_MIN_OFFSET, _queue_header(queue)), _offset)


def earliest_store_time(queue: MessageQueue) -> Call[int | None]:
    """When the oldest message of a queue was stored, in ms; None when the queue is empty."""

    def read(reply: Frame) -> int | None:
        found = offsets.TimestampResponseHeader.from_fields(reply.fields).timestamp
        return None if found < 0 else found

    return Call(request_frame(RequestCode.GET_EARLIEST_MSG_STORETIME, _queue_header(queue)), read)


def search_offset(queue: MessageQueue, timestamp_ms: int) -> Call[int]:
    """The offset of a queue at a store time in ms."""
    header = offsets.SearchOffsetRequestHeader(
        topic=queue.topic,
        queue_id=queue.queue_id,
        timestamp=timestamp_ms,
        broker_name=queue.broker_name,
    )
    return Call(request_frame(RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header), _offset)


def query_consumer_offset(
    group: str, queue: MessageQueue, *, zero_if_new: bool | None = None
) -> Call[int | None]:
    """A group's committed offset in a queue; None when the broker has none.

    zero_if_new: False asks for None where RocketMQ 4 answers 0 for a new group, because the first
    messages of the queue are still in memory. Brokers of RocketMQ 5 and ours heed it.
    """
    header = offsets.QueryConsumerOffsetRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        broker_name=queue.broker_name,
        set_zero_if_not_found=zero_if_new,
    )
    return Call(
        request_frame(RequestCode.QUERY_CONSUMER_OFFSET, header),
        lambda reply: None if reply.code else _offset(reply),
        frozenset((int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND))),
    )


def update_consumer_offset(group: str, queue: MessageQueue, offset: int) -> Call[None]:
    """Commit a group's offset in a queue: the next one to read."""
    header = offsets.UpdateConsumerOffsetRequestHeader(
        consumer_group=group,
        topic=queue.topic,
        queue_id=queue.queue_id,
        commit_offset=offset,
        broker_name=queue.broker_name,
    )
    return Call(request_frame(RequestCode.UPDATE_CONSUMER_OFFSET, header), nothing)


def lock_queues(
    group: str, client_id: str, queues: Iterable[MessageQueue]
) -> Call[list[MessageQueue]]:
    """Lock queues for orderly consumption; returns the locked ones."""
    body = LockBatchRequestBody(group, client_id, list(queues)).to_json()
    return Call(
        request_frame(RequestCode.LOCK_BATCH_MQ, None, body),
        lambda reply: LockBatchResponseBody.from_json(reply.body).lock_ok_mq_set,
    )


def unlock_queues(group: str, client_id: str, queues: Iterable[MessageQueue]) -> Call[None]:
    """Unlock queues."""
    body = LockBatchRequestBody(group, client_id, list(queues)).to_json()
    return Call(request_frame(RequestCode.UNLOCK_BATCH_MQ, None, body), nothing)


Table = dict[MessageQueue, int]


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

"""Offsets: 14, 15, 29, 30, 31 and 32 (server.md B.5, B.7)."""

from __future__ import annotations

from mqclient.wire.codes import ResponseCode
from mqclient.wire.headers.offsets import (
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueueRequestHeader,
    SearchOffsetRequestHeader,
    TimestampResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from mqserver.broker.context import BrokerContext
from mqserver.replies import Reply, Request, Response


def query_offset(broker: BrokerContext, request: Request) -> Reply:
    """QUERY_CONSUMER_OFFSET (14): a new group on a young queue starts at 0."""
    header = QueryConsumerOffsetRequestHeader.from_fields(request.fields)
    topic, queue_id, store = header.topic, header.queue_id, broker.store
    offset = store.committed(header.consumer_group, topic, queue_id)
    if offset is None:
        untrimmed = store.min_offset(topic, queue_id) <= 0
        if not untrimmed or store.is_on_disk(topic, queue_id, 0):
            remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
            return Response(ResponseCode.QUERY_NOT_FOUND, remark, {})
        offset = 0
    return _offset(offset)


def update_offset(broker: BrokerContext, request: Request) -> Reply:
    """UPDATE_CONSUMER_OFFSET (15): not checked, may go backwards."""
    header = UpdateConsumerOffsetRequestHeader.from_fields(request.fields)
    broker.store.commit(header.consumer_group, header.topic, header.queue_id, header.commit_offset)
    return Response(fields={})


def search_offset(broker: BrokerContext, request: Request) -> Reply:
    """SEARCH_OFFSET_BY_TIMESTAMP (29)."""
    header = SearchOffsetRequestHeader.from_fields(request.fields)
    return _offset(broker.store.offset_by_time(header.topic, header.queue_id, header.timestamp))


def max_offset(broker: BrokerContext, request: Request) -> Reply:
    """GET_MAX_OFFSET (30)."""
    header = QueueRequestHeader.from_fields(request.fields)
    return _offset(broker.store.max_offset(header.topic, header.queue_id))


def min_offset(broker: BrokerContext, request: Request) -> Reply:
    """GET_MIN_OFFSET (31)."""
    header = QueueRequestHeader.from_fields(request.fields)
    return _offset(broker.store.min_offset(header.topic, header.queue_id))


def earliest_time(broker: BrokerContext, request: Request) -> Reply:
    """GET_EARLIEST_MSG_STORETIME (32): -1 when the queue is empty."""
    header = QueueRequestHeader.from_fields(request.fields)
    first = broker.store.min_offset(header.topic, header.queue_id)
    time_ms = broker.store.store_time_at(header.topic, header.queue_id, first)
    return Response(fields=TimestampResponseHeader(timestamp=time_ms).to_fields())


def _offset(offset: int) -> Response:
    return Response(fields=OffsetResponseHeader(offset=offset).to_fields())

"""Codes 12, 33 and 321: messages by key and by offset (`QueryMessageProcessor`,
`AdminBrokerProcessor`)."""

from __future__ import annotations

from mqcommon.message import decode_messages
from mqcommon.wire.bodies.running import ConsumeQueueData, QueryConsumeQueueResponseBody
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.headers.admin import QueryConsumeQueueRequestHeader
from mqcommon.wire.headers.pull import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from mqserver.broker.context import BrokerContext
from mqserver.runtime.processor_api import Reply, Request, Response

_UNITS_MAX = 4_096
_UNSET = "not set any response code"


def query_message(broker: BrokerContext, request: Request) -> Reply:
    """QUERY_MESSAGE (12): finds messages by key; a query by unique id has its own limit."""
    header = QueryMessageRequestHeader.from_fields(request.fields)
    settings = broker.settings
    count = settings.default_query_max_num if header.unique_key else header.max_num
    found = broker.store.query(
        header.topic,
        header.key,
        min(count, settings.max_msgs_num_batch),
        header.begin_timestamp,
        header.end_timestamp,
    )
    if not found.message_count:
        nothing = QueryMessageResponseHeader(
            index_last_update_timestamp=0, index_last_update_phyoffset=0
        )
        remark = "can not find message, maybe time range not correct"
        return Response(ResponseCode.QUERY_NOT_FOUND, remark, nothing.to_fields())
    fields = QueryMessageResponseHeader(
        index_last_update_timestamp=found.index_last_update_timestamp_ms,
        index_last_update_phyoffset=found.index_last_update_physical_offset,
    )
    return Response(fields=fields.to_fields(), body=found.body)


def view_message(broker: BrokerContext, request: Request) -> Reply:
    """VIEW_MESSAGE_BY_ID (33): reads a record; offset 0 is the first record that still exists."""
    offset = ViewMessageRequestHeader.from_fields(request.fields).offset
    record = broker.store.get_at(offset or broker.store.min_physical_offset())
    if record is None:
        remark = f"can not find message by the offset, {offset}"
        return Response(ResponseCode.SYSTEM_ERROR, remark)
    if broker.acl is not None:
        broker.check_readable(request, decode_messages(record)[0])
    return Response(body=record)


def consume_queue(broker: BrokerContext, request: Request) -> Reply:
    """QUERY_CONSUME_QUEUE (321): entries of a queue; as in RocketMQ 4.9.7, `eval` stays false."""
    header = QueryConsumeQueueRequestHeader.from_fields(request.fields)
    topic, queue_id = header.topic or "", header.queue_id or 0
    first, end = broker.store.min_offset(topic, queue_id), broker.store.max_offset(topic, queue_id)
    if end == 0:
        remark = f"{queue_id}@{topic} is not exist!"
        return Response(ResponseCode.SYSTEM_ERROR, remark)
    index = header.index or 0
    if not first <= index < end:
        return Response(0, f"Index {index} of {queue_id}@{topic} is not exist!")
    body = QueryConsumeQueueResponseBody(max_queue_index=end, min_queue_index=first)
    if header.consumer_group is not None:
        group = broker.consumers.get(header.consumer_group)
        body.subscription_data = group.subscriptions.get(topic) if group else None
        if group is None:
            body.filter_data = f"{header.consumer_group}@{topic} is not online!"
        else:
            body.filter_data = "null"
    count = max(0, min(header.count or 0, end - index, _UNITS_MAX))
    body.queue_data = [
        ConsumeQueueData(*entry) for entry in broker.store.entries(topic, queue_id, index, count)
    ]
    return Response(0, _UNSET, body=body.to_json())

"""Messages by key and by offset: 12 and 33 (server.md B.5)."""

from __future__ import annotations

from mqclient.wire.codes import ResponseCode
from mqclient.wire.headers.pull import (
    QueryMessageRequestHeader,
    QueryMessageResponseHeader,
    ViewMessageRequestHeader,
)
from mqserver.broker.context import BrokerContext
from mqserver.replies import Reply, Request, Response


def query_message(broker: BrokerContext, request: Request) -> Reply:
    """QUERY_MESSAGE (12): a query by unique id has its own limit."""
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
    """VIEW_MESSAGE_BY_ID (33); offset 0 is the first record that is still there."""
    offset = ViewMessageRequestHeader.from_fields(request.fields).offset
    record = broker.store.get_at(offset or broker.store.min_physical_offset())
    if record is None:
        remark = f"can not find message by the offset, {offset}"
        return Response(ResponseCode.SYSTEM_ERROR, remark)
    return Response(body=record)

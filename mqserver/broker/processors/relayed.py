"""Codes 307 and 309, relayed to a consumer (`AdminBrokerProcessor.callConsumer`)."""

from __future__ import annotations

from collections.abc import Mapping

from mqcommon.message import DecodeError, decode_messages, parse_offset_msg_id
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.clients import (
    ConsumeMessageDirectlyResultRequestHeader,
    GetConsumerRunningInfoRequestHeader,
)
from mqserver.broker.context import BrokerContext
from mqserver.broker.relay import Outcome
from mqserver.broker.remarks import system_error
from mqserver.runtime.processor_api import Refused, Reply, Request, Response

_SINCE = 62
"""V3_1_8_SNAPSHOT: older clients cannot answer these requests."""
_TIMEOUT_S = 10.0


def running_info(broker: BrokerContext, request: Request) -> Reply:
    """GET_CONSUMER_RUNNING_INFO (307)."""
    header = GetConsumerRunningInfoRequestHeader.from_fields(request.fields)
    return _relayed(broker, request, (header.consumer_group, header.client_id), b"")


def consume_directly(broker: BrokerContext, request: Request) -> Reply:
    """CONSUME_MESSAGE_DIRECTLY (309): the request carries the message and the broker's name."""
    header = ConsumeMessageDirectlyResultRequestHeader.from_fields(request.fields)
    if not header.msg_id:
        raise system_error("msgId is missing")
    try:
        offset = parse_offset_msg_id(header.msg_id).physical_offset
    except (DecodeError, ValueError) as error:
        raise system_error(f"msgId {header.msg_id}: {error}") from None
    body = broker.store.get_at(offset) or b""
    if body and broker.acl is not None:
        broker.check_readable(request, decode_messages(body)[0])
    return _relayed(
        broker,
        request,
        (header.consumer_group, header.client_id if header.client_id is not None else "null"),
        body,
        {"brokerName": broker.settings.broker_name},
    )


def _relayed(
    broker: BrokerContext,
    request: Request,
    consumer: tuple[str, str],
    body: bytes,
    more: Mapping[str, str] | None = None,
) -> Reply:
    group, client_id = consumer
    online = broker.consumers.get(group)
    members = online.members.values() if online else ()
    member = next((m for m in members if m.client_id == client_id), None)
    if member is None:
        raise system_error(f"The Consumer <{group}> <{client_id}> not online")
    if member.version < _SINCE:
        raise system_error(
            f"The Consumer <{client_id}> Version <{member.version}> too low to finish, please "
            "upgrade it to V3_1_8_SNAPSHOT"
        )
    connection = member.connection
    question = Frame(request.code, {**request.fields, **(more or {})}, body)

    def answer(reply: Outcome) -> Response:
        if isinstance(reply, TimeoutError):
            remark = f"consumer <{group}> <{client_id}> Timeout: {reply}"
            raise Refused(ResponseCode.CONSUME_MSG_TIMEOUT, remark) from None
        if isinstance(reply, Exception):
            raise reply
        given = reply.fields if reply.has_fields else None
        return Response(reply.code, reply.remark, given, reply.body)

    return broker.relay.later(request, connection, question, _TIMEOUT_S, answer)

"""Codes 324 and 325: relay a reply message to the client that asked (`ReplyMessageProcessor`)."""

from __future__ import annotations

import logging

from mqcommon.property_text import PAIR_END, Pair, pairs_of
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame, request_frame
from mqcommon.wire.headers.send import (
    ReplyMessageRequestHeader,
    SendMessageRequestHeader,
    SendMessageRequestHeaderV2,
)
from mqserver.broker.context import BrokerContext
from mqserver.broker.message_text import store_form
from mqserver.broker.relay import Outcome
from mqserver.broker.remarks import system_error
from mqserver.broker.sending import (
    check_queue,
    check_time_and_name,
    create_topic,
    region_and_trace,
    stored_place,
)
from mqserver.runtime.processor_api import Refused, Reply, Request, Response

log = logging.getLogger("mqserver.broker.reply")

_TIMEOUT_S = 10.0
_ASKER = "REPLY_TO_CLIENT"


def reply(broker: BrokerContext, request: Request) -> Reply:
    """Push the reply to the client that waits for it; store it if the settings say so."""
    common = region_and_trace(broker)
    is_short = request.code == RequestCode.SEND_REPLY_MESSAGE_V2
    kind = SendMessageRequestHeaderV2 if is_short else SendMessageRequestHeader
    try:
        check_time_and_name(broker, request.fields.get("b" if is_short else "topic"))
        header = kind.from_fields(request.fields)
        config = broker.topics.get(header.topic) or create_topic(broker, header, request.remote)
        check_queue(request, header, config)
    except Refused as refused:
        answer = refused.response
        return Response(answer.code, answer.remark, common)

    def settled(why: Refused | None) -> Response:
        code, remark = (why.response.code, why.response.remark) if why else (0, None)
        queue_id = str(max(0, header.queue_id))
        place = {} if code else {"queueId": queue_id, "msgId": "0", "queueOffset": "0"}
        if broker.settings.store_reply_message_enable:
            place |= _stored(broker, request, header)
        return Response(code, remark, {**place, **common})

    asker = dict(pairs_of(header.properties or "")).get(_ASKER)
    if not asker:
        return settled(system_error(f"reply message properties[{_ASKER}] is null"))
    connection = broker.producers.connection_of(asker)
    if connection is None:
        return settled(system_error(f"push reply message fail, channel of <{asker}> not found."))
    pushed = _pushed(broker, request, header)
    return broker.relay.later(
        request, connection, pushed, _TIMEOUT_S, lambda given: settled(_failure(asker, given))
    )


def _pushed(broker: BrokerContext, request: Request, header: SendMessageRequestHeader) -> Frame:
    """PUSH_REPLY_MESSAGE_TO_CLIENT (326)."""
    now_ms = broker.now_ms()
    push = ReplyMessageRequestHeader(
        producer_group=header.producer_group,
        topic=header.topic,
        default_topic=header.default_topic,
        default_topic_queue_nums=header.default_topic_queue_nums,
        queue_id=header.queue_id,
        sys_flag=header.sys_flag,
        born_timestamp=header.born_timestamp,
        flag=header.flag,
        properties=f"{Pair('PUSH_REPLY_TIME', str(now_ms))}{PAIR_END}{header.properties or ''}",
        reconsume_times=header.reconsume_times,
        unit_mode=header.unit_mode,
        born_host=request.remote,
        store_host=broker.store_host,
        store_timestamp=now_ms,
    )
    return request_frame(RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT, push, request.body)


def _failure(asker: str, given: Outcome) -> Refused | None:
    """Why the reply did not arrive, None if it did."""
    if isinstance(given, Exception):
        why = str(given)
    elif given.code != 0:
        why = f"the client answered {given.code}: {given.remark}"
    else:
        return None
    log.warning("a reply message did not reach client %s: %s", asker, why)
    return system_error(f"push reply message to {asker}fail.")


def _stored(
    broker: BrokerContext, request: Request, header: SendMessageRequestHeader
) -> dict[str, str]:
    """Store the reply with unchanged properties; returns its place, empty if storing failed."""
    text = header.properties or ""
    result = broker.store.put(
        header.topic,
        request.body,
        queue_id=max(0, header.queue_id),
        flag=header.flag,
        sys_flag=header.sys_flag,
        properties=text.encode(),
        born_timestamp_ms=header.born_timestamp,
        born_host=request.remote,
        store_host=broker.store_host,
        reconsume_times=header.reconsume_times or 0,
        wait_store_ok=store_form(text, "").wait,
    )
    if not result.record_offsets:
        return {}
    broker.stats.put(header.topic, len(result.record_offsets), result.size_bytes)
    return stored_place(broker, result, max(0, header.queue_id))

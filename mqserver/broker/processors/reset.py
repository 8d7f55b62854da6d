"""Codes 222, 223, 308 and 314: offset resets through clients, and copies (`Broker2Client`)."""

from __future__ import annotations

from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.offsets import (
    GetConsumerStatusBody,
    QueryCorrectionOffsetBody,
    QueueOffset,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from mqcommon.wire.codes import LanguageCode, RequestCode, ResponseCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.clients import GetConsumerStatusRequestHeader
from mqcommon.wire.headers.offsets import (
    CloneGroupOffsetRequestHeader,
    QueryCorrectionOffsetHeader,
    ResetOffsetRequestHeader,
)
from mqserver.broker.context import BrokerContext
from mqserver.broker.relay import Outcome
from mqserver.broker.remarks import system_error
from mqserver.runtime.processor_api import Reply, Request, Response

_RESET_SINCE = 28
"""V3_0_7_SNAPSHOT: older clients cannot reset their offsets."""
_STATUS_TIMEOUT_S = 5.0
_UNSET = "not set any response code"


def reset_offset(broker: BrokerContext, request: Request) -> Reply:
    """INVOKE_BROKER_TO_RESET_OFFSET (222): tells the members (220), which commit the offsets."""
    header = ResetOffsetRequestHeader.from_fields(request.fields)
    offsets = _new_offsets(broker, header)
    group = broker.consumers.get(header.group)
    if group is None:
        remark = (
            f"Consumer not online, so can not reset offset, Group: {header.group} "
            f"Topic: {header.topic} Timestamp: {header.timestamp}"
        )
        return Response(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    body = ResetOffsetBody(offsets).to_json()
    member_body = _for_c(offsets) if request.language == LanguageCode.CPP else body
    fields = {**header.to_fields(), "isForce": "false"}
    reset = Frame(int(RequestCode.RESET_CONSUMER_CLIENT_OFFSET), fields, member_body)
    for member in group.members.values():
        if member.version < _RESET_SINCE:
            remark = f"the client does not support this feature. version={member.version}"
            raise system_error(remark)
        broker.relay.tell(member.connection, reset)
    return Response(remark=_UNSET, body=body)


def _new_offsets(
    broker: BrokerContext, header: ResetOffsetRequestHeader
) -> dict[MessageQueue, int]:
    """The new offset of the group in each queue; without `is_force` never a higher one."""
    topic, group, store = header.topic, header.group, broker.store
    config = broker.topics.get(topic)
    if config is None:
        raise system_error(
            f"[reset-offset] reset offset failed, no topic in this broker. topic={topic}"
        )
    offsets = {}
    for queue_id in range(config.write_queue_nums):
        committed = store.committed(group, topic, queue_id)
        if committed is None:
            raise system_error(f"THe consumer group <{group}> not exist")
        if header.timestamp == -1:
            offset = store.max_offset(topic, queue_id)
        else:
            offset = _first_at(broker, topic, queue_id, header.timestamp)
        offset = max(0, offset)
        queue = MessageQueue(topic, broker.settings.broker_name, queue_id)
        offsets[queue] = offset if header.is_force else min(offset, committed)
    return offsets


def _first_at(broker: BrokerContext, topic: str, queue_id: int, timestamp_ms: int) -> int:
    """The offset of the first message stored at or after a time, the queue's end if there is none.

    RocketMQ takes the nearest message, which may be an earlier one.
    """
    near = broker.store.offset_by_time(topic, queue_id, timestamp_ms)
    is_earlier = 0 <= broker.store.store_time_at(topic, queue_id, near) < timestamp_ms
    return near + 1 if is_earlier else near


def _for_c(offsets: dict[MessageQueue, int]) -> bytes:
    rows = [QueueOffset(q.topic, q.broker_name, q.queue_id, at) for q, at in offsets.items()]
    return ResetOffsetBodyForC(rows).to_json()


def consumer_status(broker: BrokerContext, request: Request) -> Reply:
    """INVOKE_BROKER_TO_GET_CONSUMER_STATUS (223): asks members (221), and leaves out those that
    do not answer."""
    header = GetConsumerStatusRequestHeader.from_fields(request.fields)
    group = broker.consumers.get(header.group)
    if group is None:
        raise system_error(f"No Any Consumer online in the consumer group: [{header.group}]")
    for member in group.members.values():
        if member.version < _RESET_SINCE:
            remark = f"the client does not support this feature. version={member.version}"
            raise system_error(remark)
    wanted = header.client_addr
    asked = [m for m in group.members.values() if not wanted or m.client_id == wanted]
    fields = {"topic": header.topic, "group": header.group}

    def answer(replies: list[Outcome]) -> Response:
        found = zip(asked, map(_status_in, replies), strict=True)
        tables = {member.client_id: table for member, table in found if table is not None}
        return Response(remark=_UNSET, body=GetConsumerStatusBody(consumer_table=tables).to_json())

    question = Frame(int(RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT), fields)
    questions = [(member.connection, question) for member in asked]
    return broker.relay.later_of_all(request, questions, _STATUS_TIMEOUT_S, answer)


def _status_in(reply: Outcome) -> dict[MessageQueue, int] | None:
    if isinstance(reply, Exception) or reply.code != 0 or not reply.body:
        return None
    return GetConsumerStatusBody.from_json(reply.body).message_queue_table


def correction_offset(broker: BrokerContext, request: Request) -> Reply:
    """QUERY_CORRECTION_OFFSET (308): the smallest committed offset of each queue.

    RocketMQ also deletes the offsets of the groups in `filterGroups`; this broker only ignores
    those groups.
    """
    header = QueryCorrectionOffsetHeader.from_fields(request.fields)
    left_out = {name.strip() for name in (header.filter_groups or "").split(",")}
    least: dict[int, int] = {}
    for key, row in broker.store.committed_all().items():
        topic, _, group = key.partition("@")
        if topic != header.topic or group in left_out:
            continue
        for queue_id, offset in row.items():
            least[queue_id] = min(offset, least.get(queue_id, offset))
    return Response(body=QueryCorrectionOffsetBody(least).to_json())


def clone_offset(broker: BrokerContext, request: Request) -> Reply:
    """CLONE_GROUP_OFFSET (314): copies the offsets of a group; always answers success.

    As in RocketMQ, a request without a topic does nothing. The broker skips an online source group
    that does not subscribe to the topic, unless `offline` is set.
    """
    header = CloneGroupOffsetRequestHeader.from_fields(request.fields)
    source = broker.consumers.get(header.src_group)
    if not header.topic or broker.topics.get(header.topic) is None:
        return Response()
    is_foreign = source is not None and header.topic not in source.subscriptions
    if header.offline or not is_foreign:
        broker.store.clone_offsets(header.src_group, header.dest_group, header.topic)
    return Response()

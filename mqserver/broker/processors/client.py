"""Codes 34, 35, 38 and 46: connected clients (`ClientManageProcessor`)."""

from __future__ import annotations

from mqcommon import names
from mqcommon.wire.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
)
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.headers.clients import (
    ConsumerGroupRequestHeader,
    UnregisterClientRequestHeader,
)
from mqserver.broker.context import BrokerContext
from mqserver.broker.state.members import Member
from mqserver.broker.state.topics import unit_flag
from mqserver.broker.tags import is_tag_type, sql_error
from mqserver.runtime.processor_api import Refused, Reply, Request, Response

_ENUMS = {
    "consume_type": ("CONSUME_ACTIVELY", "CONSUME_PASSIVELY"),
    "message_model": ("BROADCASTING", "CLUSTERING"),
    "consume_from_where": (
        "CONSUME_FROM_LAST_OFFSET",
        "CONSUME_FROM_LAST_OFFSET_AND_FROM_MIN_WHEN_BOOT_FIRST",
        "CONSUME_FROM_MIN_OFFSET",
        "CONSUME_FROM_MAX_OFFSET",
        "CONSUME_FROM_FIRST_OFFSET",
        "CONSUME_FROM_TIMESTAMP",
    ),
}
"""The constants of Java's enums, in the order of their ordinals."""


def heartbeat(broker: BrokerContext, request: Request) -> Reply:
    """HEART_BEAT (34): succeeds, and skips groups with illegal names.

    At a limit, the broker registers the groups that it has room for, and the answer names the
    setting of the limit.
    """
    data = _read(broker, request)
    member = Member(
        data.client_id,
        request.connection,
        request.remote,
        request.language,
        request.version,
        broker.monotonic(),
    )
    refused = _take_consumers(broker, data.consumer_data_set, member)
    for producer in data.producer_data_set:
        try:
            if names.is_legal_group(producer.group_name):
                broker.producers.register(producer.group_name, member)
        except Refused as error:
            refused = error
    if not broker.is_open(request.connection):  # it closed before this heartbeat was handled
        broker.forget(request.connection)
    if refused is not None:
        raise refused
    return Response()


def _read(broker: BrokerContext, request: Request) -> HeartbeatData:
    """Decode the body. Raises Refused if it is larger than any client needs."""
    limits, size = broker.settings, len(request.body)
    if size > limits.max_heartbeat_bytes:
        remark = (
            f"a heartbeat of {size} bytes exceeds maxHeartbeatBytes={limits.max_heartbeat_bytes}"
        )
        raise broker.bounds.refused(ResponseCode.SYSTEM_ERROR, "maxHeartbeatBytes", remark)
    data = HeartbeatData.from_json(request.body)
    groups = len(data.consumer_data_set) + len(data.producer_data_set)
    if groups > limits.client_group_max:
        remark = f"a heartbeat of {groups} groups exceeds clientGroupMax={limits.client_group_max}"
        raise broker.bounds.refused(ResponseCode.SYSTEM_ERROR, "clientGroupMax", remark)
    return data


def _take_consumers(
    broker: BrokerContext, consumers: list[ConsumerData], member: Member
) -> Refused | None:
    """Register the consumer groups that there is room for; returns the refusal of the others."""
    refused, taken, is_new = None, [], False
    for data in consumers:
        try:
            group = broker.groups.find(data.group_name, member.remote)
        except Refused as error:
            refused = error
            continue
        if group is not None:
            topic = names.retry_topic(data.group_name)
            flag = unit_flag(topic, data.unit_mode)
            is_new |= broker.topics.ensured(topic, group.retry_queue_nums, flag, member.remote)[1]
        # RocketMQ registers the members of a group that may not be created, too.
        if group is not None or names.is_legal_group(data.group_name):
            taken.append(data)
    if is_new:
        broker.topics.announce()
    for data in taken:
        try:
            _register(broker, data, member)
        except Refused as error:
            refused = error
    return refused


def _register(broker: BrokerContext, data: ConsumerData, member: Member) -> None:
    for name, known in _ENUMS.items():
        setattr(data, name, _constant(getattr(data, name), known))
    broker.consumers.register(data, member)


def _constant(text: str | None, known: tuple[str, ...]) -> str | None:
    """An enum's constant by name or ordinal; None for any other text, as in fastjson."""
    if text is not None and text.isdecimal() and int(text) < len(known):
        return known[int(text)]
    return text if text in known else None


def unregister(broker: BrokerContext, request: Request) -> Reply:
    """UNREGISTER_CLIENT (35): removes the client from the groups that the request names."""
    header = UnregisterClientRequestHeader.from_fields(request.fields)
    if header.producer_group:
        broker.producers.unregister(header.producer_group, request.connection)
    if header.consumer_group:
        broker.consumers.unregister(header.consumer_group, request.connection)
    return Response(fields={})


def consumer_list(broker: BrokerContext, request: Request) -> Reply:
    """GET_CONSUMER_LIST_BY_GROUP (38)."""
    header = ConsumerGroupRequestHeader.from_fields(request.fields)
    group = broker.consumers.get(header.consumer_group)
    if group is None:
        remark = f"no consumer for this group, {header.consumer_group}"
        return Response(ResponseCode.SYSTEM_ERROR, remark, {})
    body = GetConsumerListByGroupResponseBody(group.client_ids())
    return Response(fields={}, body=body.to_json())


def check_client(broker: BrokerContext, request: Request) -> Reply:
    """CHECK_CLIENT_CONFIG (46): checks the expression of a subscription."""
    subscription = CheckClientRequestBody.from_json(request.body).subscription_data
    kind = subscription.expression_type
    if is_tag_type(kind):
        return Response()
    if not broker.settings.enable_property_filter:
        remark = f"The broker does not support consumer to filter message by {kind}"
        return Response(ResponseCode.SYSTEM_ERROR, remark)
    wrong = sql_error(kind, subscription.sub_string)
    return Response(ResponseCode.SUBSCRIPTION_PARSE_FAILED if wrong else 0, wrong)

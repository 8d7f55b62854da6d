"""Connected clients: 34, 35, 38 and 46 (server.md B.5)."""

from __future__ import annotations

from mqclient.wire.bodies.heartbeat import (
    CheckClientRequestBody,
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    HeartbeatData,
)
from mqclient.wire.codes import ResponseCode
from mqclient.wire.headers.clients import (
    ConsumerGroupRequestHeader,
    UnregisterClientRequestHeader,
)
from mqserver.broker import topic_names as names
from mqserver.broker.context import BrokerContext
from mqserver.broker.state.members import Member
from mqserver.broker.state.topics import unit_flag
from mqserver.broker.tags import is_tag_type, sql_error
from mqserver.replies import Reply, Request, Response

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
"""Java's enums, in the order of their ordinals."""


def heartbeat(broker: BrokerContext, request: Request) -> Reply:
    """HEART_BEAT (34): always a success; a group of an illegal name is skipped."""
    data = HeartbeatData.from_json(request.body)
    member = Member(
        data.client_id,
        request.connection,
        request.remote,
        request.language,
        request.version,
        broker.monotonic(),
    )
    for consumer in data.consumer_data_set:
        _consumer(broker, consumer, member, request.remote)
    for producer in data.producer_data_set:
        broker.producers.register(producer.group_name, member)
    if not broker.is_open(request.connection):  # its end was handled before this heartbeat
        broker.forget(request.connection)
    return Response()


def _consumer(broker: BrokerContext, data: ConsumerData, member: Member, by: str) -> None:
    group = broker.groups.find(data.group_name, by)
    if group is None and not names.is_legal_group(data.group_name):
        return
    for name, known in _ENUMS.items():
        setattr(data, name, _constant(getattr(data, name), known))
    if group is not None:  # else it may not be created: RocketMQ knows its members nevertheless
        topic = names.retry_topic(data.group_name)
        flag = unit_flag(topic, data.unit_mode)
        broker.topics.ensure(topic, group.retry_queue_nums, flag, by)
    broker.consumers.register(data, member)


def _constant(text: str | None, known: tuple[str, ...]) -> str | None:
    """The enum's constant by name or ordinal, None for any other text, as fastjson reads it."""
    if text is not None and text.isdecimal() and int(text) < len(known):
        return known[int(text)]
    return text if text in known else None


def unregister(broker: BrokerContext, request: Request) -> Reply:
    """UNREGISTER_CLIENT (35): leave the groups that the request names."""
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
    """CHECK_CLIENT_CONFIG (46): whether a subscription's expression can be used."""
    subscription = CheckClientRequestBody.from_json(request.body).subscription_data
    kind = subscription.expression_type
    if is_tag_type(kind):
        return Response()
    if not broker.settings.enable_property_filter:
        remark = f"The broker does not support consumer to filter message by {kind}"
        return Response(ResponseCode.SYSTEM_ERROR, remark)
    wrong = sql_error(kind, subscription.sub_string)
    return Response(ResponseCode.SUBSCRIPTION_PARSE_FAILED if wrong else 0, wrong)

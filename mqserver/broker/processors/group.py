"""Codes 200, 201, 203, 204, 207, 208, 300, 317 and 328: groups (`AdminBrokerProcessor`)."""

from __future__ import annotations

from functools import partial

from mqcommon import names
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.common import GroupList
from mqcommon.wire.bodies.groups import (
    ConsumeStats,
    ConsumeStatsList,
    GroupConfig,
    OffsetWrapper,
    ProducerConnection,
    ProducerInfo,
    ProducerTableInfo,
)
from mqcommon.wire.bodies.heartbeat import SubscriptionData
from mqcommon.wire.bodies.route_bounds import QUEUES_MAX
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.headers.admin import (
    DeleteSubscriptionGroupRequestHeader,
    GetConsumeStatsInBrokerHeader,
    GetConsumeStatsRequestHeader,
    TopicRequestHeader,
)
from mqcommon.wire.headers.clients import ConsumerGroupRequestHeader, ProducerGroupRequestHeader
from mqserver.broker.context import BrokerContext
from mqserver.broker.remarks import system_error
from mqserver.broker.reply_size import CLIENT_ROW_BYTES, ReplySize, check_whole, queue_bytes
from mqserver.broker.state.groups import FILE, why_too_long
from mqserver.broker.state.members import Member, language_name
from mqserver.runtime.processor_api import AgainAfter, Reply, Request, Response

_GROUP_BYTES_MIN = 200
"""Least bytes of a group's row in the table of all groups."""


def create_group(broker: BrokerContext, request: Request) -> Reply:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200): saves the group before the answer.

    RocketMQ accepts any name. This broker checks the names of new groups only, so that an existing
    group can be changed whatever its name is.
    """
    if request.attempt:  # the group is saved
        return Response()
    config = GroupConfig.from_json(request.body)
    name = config.group_name
    if broker.groups.get(name) is None and not names.is_legal_group(name):
        raise system_error(
            f"group {name!r}: a name must match ^[%|a-zA-Z0-9_-]+$ and have at most 248 characters"
        )
    if broker.groups.get(name) is None and (reason := why_too_long(name)):
        raise system_error(reason)
    if not 0 <= config.retry_queue_nums <= QUEUES_MAX:
        flaw = f"retryQueueNums={config.retry_queue_nums} must be 0 to {QUEUES_MAX}"
        raise system_error(f"group {name}: {flaw}")
    broker.groups.put(config, request.remote)
    retry = names.retry_topic(name)
    if broker.topics.get(retry) is not None:
        # Retries are spread over retryQueueNums queues, and consumers read the queues of the topic.
        broker.topics.ensure(retry, config.retry_queue_nums, by=request.remote)
    return AgainAfter(partial(broker.saver.when_saved, FILE))


def all_groups(broker: BrokerContext, request: Request) -> Reply:
    """GET_ALL_SUBSCRIPTIONGROUP_CONFIG (201)."""
    wrapper = broker.groups.all()
    check_whole(_GROUP_BYTES_MIN * len(wrapper.subscription_group_table), "the broker's groups")
    return Response(body=wrapper.to_json())


def delete_group(broker: BrokerContext, request: Request) -> Reply:
    """DELETE_SUBSCRIPTIONGROUP (207): deletes the group's offsets too, if the request asks.

    The deletion is on the disk before the answer.
    """
    header = DeleteSubscriptionGroupRequestHeader.from_fields(request.fields)
    broker.groups.remove(header.group_name, request.remote)
    broker.saver.save_now(FILE)
    if header.remove_offset:
        broker.store.remove_group(header.group_name)
        broker.store.flush()
    if broker.settings.auto_delete_unused_stats:
        broker.stats.forget_group(header.group_name)
    return Response()


def producer_connections(broker: BrokerContext, request: Request) -> Reply:
    """GET_PRODUCER_CONNECTION_LIST (204)."""
    group = ProducerGroupRequestHeader.from_fields(request.fields).producer_group
    if not broker.producers.knows(group):
        return Response(ResponseCode.SYSTEM_ERROR, f"the producer group[{group}] not exist")
    size = ReplySize()
    members = size.fitting(broker.producers.members(group), _member_bytes)
    rows = [member.as_connection() for member in members]
    return Response(remark=size.remark(), body=ProducerConnection(rows).to_json())


def all_producers(broker: BrokerContext, request: Request) -> Reply:
    """GET_ALL_PRODUCER_INFO (328)."""
    now_s, now_ms, size = broker.monotonic(), broker.now_ms(), ReplySize()
    table = {
        group: [
            ProducerInfo(
                member.client_id,
                f"/{member.remote}",
                language_name(member.language),
                member.version,
                now_ms - int((now_s - member.seen) * 1000),
            )
            for member in size.fitting(members, _member_bytes)
        ]
        for group, members in broker.producers.all().items()
        if size.takes(len(group))
    }
    return Response(remark=size.remark(), body=ProducerTableInfo(table).to_json())


def _member_bytes(member: Member) -> int:
    return CLIENT_ROW_BYTES + len(member.client_id)


def consumer_connections(broker: BrokerContext, request: Request) -> Reply:
    """GET_CONSUMER_CONNECTION_LIST (203)."""
    group = ConsumerGroupRequestHeader.from_fields(request.fields).consumer_group
    connection = broker.consumers.connection(group)
    if connection is None:
        remark = f"the consumer group[{group}] not online"
        return Response(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    size = ReplySize()
    connection.subscription_table = dict(
        size.fitting(connection.subscription_table.items(), _subscription_bytes)
    )
    connection.connection_set = list(
        size.fitting(connection.connection_set, lambda one: CLIENT_ROW_BYTES + len(one.client_id))
    )
    return Response(remark=size.remark(), body=connection.to_json())


def _subscription_bytes(row: tuple[str, SubscriptionData]) -> int:
    """The expression is there as a text, and once more as its tags."""
    topic, subscription = row
    return CLIENT_ROW_BYTES + 2 * len(topic) + 3 * len(subscription.sub_string)


def consume_stats(broker: BrokerContext, request: Request) -> Reply:
    """GET_CONSUME_STATS (208): a group's position in each read queue of its topics.

    The answer leaves out deleted topics, and topics that an online group does not subscribe to.
    """
    header = GetConsumeStatsRequestHeader.from_fields(request.fields)
    group = header.consumer_group
    topics = [header.topic] if header.topic else _topics_of(broker, group)
    online = broker.consumers.get(group)
    stats, size = ConsumeStats(), ReplySize()
    for topic in topics:
        config = broker.topics.get(topic)
        if config is None or (online and topic not in online.subscriptions):
            continue
        for queue_id in size.fitting(range(config.read_queue_nums), queue_bytes(topic)):
            queue = MessageQueue(topic, broker.settings.broker_name, queue_id)
            stats.offset_table[queue] = _position(broker, group, topic, queue_id)
        stats.consume_tps += broker.stats.consume_tps(group, topic)
    return Response(remark=size.remark(), body=stats.to_json())


def all_consume_stats(broker: BrokerContext, request: Request) -> Reply:
    """GET_BROKER_CONSUME_STATS (317): every group's position in each write queue of its topics."""
    is_order = GetConsumeStatsInBrokerHeader.from_fields(request.fields).is_order
    body, size = ConsumeStatsList(broker_addr=broker.store_host), ReplySize()
    for group in size.fitting(broker.groups.all().subscription_group_table, len):
        online = broker.consumers.get(group)
        rows = []
        for topic in _topics_of(broker, group):
            config = broker.topics.get(topic)
            if config is None or (is_order and not config.order):
                continue
            if online and topic not in online.subscriptions:
                continue
            stats = ConsumeStats(consume_tps=broker.stats.consume_tps(group, topic))
            for queue_id in size.fitting(range(config.write_queue_nums), queue_bytes(topic)):
                queue = MessageQueue(topic, broker.settings.broker_name, queue_id)
                position = _position(broker, group, topic, queue_id)
                stats.offset_table[queue] = position
                body.total_diff += position.broker_offset - position.consumer_offset
            rows.append(stats)
        body.consume_stats_list.append({group: rows})
    return Response(remark=size.remark(), body=body.to_json())


def _position(broker: BrokerContext, group: str, topic: str, queue_id: int) -> OffsetWrapper:
    store = broker.store
    consumed = store.committed(group, topic, queue_id) or 0
    last_ms = 0
    if consumed > 0:
        last_ms = max(0, store.store_time_at(topic, queue_id, consumed - 1))
    return OffsetWrapper(max(0, store.max_offset(topic, queue_id)), consumed, last_ms)


def groups_of_topic(broker: BrokerContext, request: Request) -> Reply:
    """QUERY_TOPIC_CONSUME_BY_WHO (300): online groups of a topic, and groups with offsets in it."""
    topic = TopicRequestHeader.from_fields(request.fields).topic
    groups = dict.fromkeys(broker.consumers.groups_of_topic(topic))
    for key in broker.store.committed_all():
        known, _, group = key.partition("@")
        if known == topic:
            groups[group] = None
    size = ReplySize()
    found = GroupList(list(size.fitting(groups, len)))
    return Response(remark=size.remark(), body=found.to_json())


def _topics_of(broker: BrokerContext, group: str) -> list[str]:
    return list(broker.store.committed_of_group(group))

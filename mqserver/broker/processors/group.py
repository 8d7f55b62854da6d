"""Groups: 200, 203, 208 and 300 (server.md B.7)."""

from __future__ import annotations

from mqclient.wire.bodies.common import GroupList
from mqclient.wire.bodies.groups import ConsumeStats, OffsetWrapper, SubscriptionGroupConfig
from mqclient.wire.codes import ResponseCode
from mqclient.wire.headers.admin import GetConsumeStatsRequestHeader, TopicRequestHeader
from mqclient.wire.headers.clients import ConsumerGroupRequestHeader
from mqserver.broker.context import BrokerContext
from mqserver.broker.state.groups import FILE
from mqserver.replies import Reply, Request, Response
from mqstore import MessageQueue


def create_group(broker: BrokerContext, request: Request) -> Reply:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP (200): saved before the answer."""
    broker.groups.put(SubscriptionGroupConfig.from_json(request.body))
    broker.saver.save_now(FILE)
    return Response()


def consumer_connections(broker: BrokerContext, request: Request) -> Reply:
    """GET_CONSUMER_CONNECTION_LIST (203)."""
    group = ConsumerGroupRequestHeader.from_fields(request.fields).consumer_group
    connection = broker.consumers.connection(group)
    if connection is None:
        remark = f"the consumer group[{group}] not online"
        return Response(ResponseCode.CONSUMER_NOT_ONLINE, remark)
    return Response(body=connection.to_json())


def consume_stats(broker: BrokerContext, request: Request) -> Reply:
    """GET_CONSUME_STATS (208): how far a group is in each read queue of its topics.

    A topic that is gone, or that an online group no longer subscribes to, is left out.
    """
    header = GetConsumeStatsRequestHeader.from_fields(request.fields)
    group = header.consumer_group
    topics = [header.topic] if header.topic else _topics_of(broker, group)
    online = broker.consumers.get(group)
    stats = ConsumeStats()
    for topic in topics:
        config = broker.topics.get(topic)
        if config is None or (online and topic not in online.subscriptions):
            continue
        for queue_id in range(config.read_queue_nums):
            queue = MessageQueue(topic, broker.settings.broker_name, queue_id)
            stats.offset_table[queue] = _position(broker, group, topic, queue_id)
    return Response(body=stats.to_json())


def _position(broker: BrokerContext, group: str, topic: str, queue_id: int) -> OffsetWrapper:
    store = broker.store
    consumed = store.committed(group, topic, queue_id) or 0
    last_ms = 0
    if consumed > 0:
        last_ms = max(0, store.store_time_at(topic, queue_id, consumed - 1))
    return OffsetWrapper(max(0, store.max_offset(topic, queue_id)), consumed, last_ms)


def groups_of_topic(broker: BrokerContext, request: Request) -> Reply:
    """QUERY_TOPIC_CONSUME_BY_WHO (300): groups online, and groups with offsets."""
    topic = TopicRequestHeader.from_fields(request.fields).topic
    groups = dict.fromkeys(broker.consumers.groups_of_topic(topic))
    for key in broker.store.committed_all():
        known, _, group = key.partition("@")
        if known == topic:
            groups[group] = None
    return Response(body=GroupList(list(groups)).to_json())


def _topics_of(broker: BrokerContext, group: str) -> list[str]:
    keys = (key.partition("@") for key in broker.store.committed_all())
    return [topic for topic, _, name in keys if name == group]

"""Calls about topics."""

from __future__ import annotations

from mqcommon.wire.bodies.common import GroupList, TopicList
from mqcommon.wire.bodies.topics import TopicConfigSerializeWrapper, TopicStatsTable
from mqcommon.wire.calls.call import Call, body_of, nothing
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import request_frame
from mqcommon.wire.headers import admin
from mqcommon.wire.headers.admin import TopicRequestHeader


def create_topic(header: admin.CreateTopicRequestHeader) -> Call[None]:
    """Create or change a topic on one broker."""
    return Call(request_frame(RequestCode.UPDATE_AND_CREATE_TOPIC, header), nothing)


def all_topic_config() -> Call[TopicConfigSerializeWrapper]:
    """Configuration of every topic of a broker."""
    return Call(
        request_frame(RequestCode.GET_ALL_TOPIC_CONFIG), body_of(TopicConfigSerializeWrapper)
    )


def topic_stats(topic: str) -> Call[TopicStatsTable]:
    """Extent of each queue of a topic on one broker."""
    header = admin.TopicRequestHeader(topic=topic)
    return Call(request_frame(RequestCode.GET_TOPIC_STATS_INFO, header), body_of(TopicStatsTable))


ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"
"""The namespace in which NameServers keep the queues of ordered topics: topic to
"brokerA:4;brokerB:8".
"""


def consumed_by(topic: str) -> Call[list[str]]:
    """Groups that have an offset in a topic on one broker."""
    request = request_frame(RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicRequestHeader(topic=topic))
    return Call(request, lambda reply: GroupList.from_json(reply.body or b"{}").group_list)


def delete_topic(topic: str) -> Call[None]:
    """Delete a topic of one broker, with its queues."""
    request = request_frame(RequestCode.DELETE_TOPIC_IN_BROKER, TopicRequestHeader(topic=topic))
    return Call(request, lambda reply: None)


def system_topics() -> Call[list[str]]:
    """Topics that a broker made for itself."""
    request = request_frame(RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER)
    return Call(request, lambda reply: TopicList.from_json(reply.body).topic_list)

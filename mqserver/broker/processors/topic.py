"""Codes 17, 21, 202, 215 and 305: topics (`AdminBrokerProcessor`)."""

from __future__ import annotations

from mqcommon import names
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.common import TopicList
from mqcommon.wire.bodies.route_bounds import queues_flaw
from mqcommon.wire.bodies.topics import TopicConfig, TopicOffset, TopicStatsTable
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.headers.admin import CreateTopicRequestHeader, TopicRequestHeader
from mqserver.broker.context import BrokerContext
from mqserver.broker.remarks import system_error
from mqserver.broker.reply_size import ReplySize, check_whole, queue_bytes
from mqserver.broker.state.topics import FILE, INHERIT, READ, WRITE
from mqserver.runtime.processor_api import AgainAfter, Reply, Request, Response

_FILTER_TYPES = ("SINGLE_TAG", "MULTI_TAG")
_TOPIC_BYTES_MIN = 120
"""Least bytes of a topic's row in the table of all topics, without its names."""
_PERM_MAX = READ | WRITE | INHERIT


def create_topic(broker: BrokerContext, request: Request) -> Reply:
    """UPDATE_AND_CREATE_TOPIC (17): replaces, saves and registers the topic before the answer.

    Changes that wait at the same time share one registration and one save. As in RocketMQ, `order`
    of the request has no effect: only key-values of the NameServer mark a topic as ordered.
    """
    if request.attempt:  # the topic is saved and registered
        return Response(remark="not set any response code")
    _check_name(broker, request)
    header = CreateTopicRequestHeader.from_fields(request.fields)
    if header.topic_filter_type not in _FILTER_TYPES:
        raise system_error(f"topicFilterType = [{header.topic_filter_type}] value invalid")
    if flaw := queues_flaw(header.topic, header.read_queue_nums, header.write_queue_nums):
        raise system_error(flaw)
    if not 0 <= header.perm <= _PERM_MAX:
        raise system_error(f"perm={header.perm}: must be 0 to {_PERM_MAX}")
    broker.topics.put(
        TopicConfig(
            header.topic,
            read_queue_nums=header.read_queue_nums,
            write_queue_nums=header.write_queue_nums,
            perm=header.perm,
            topic_filter_type=header.topic_filter_type,
            topic_sys_flag=header.topic_sys_flag or 0,
        ),
        request.remote,
    )
    return AgainAfter(broker.topic_changes.when_done)


def delete_topic(broker: BrokerContext, request: Request) -> Reply:
    """DELETE_TOPIC_IN_BROKER (215): deletes a topic and its messages before the answer.

    Deleting an unknown topic succeeds. RocketMQ also empties the queues of every other topic that
    its table lacks; code 316 does that here.
    """
    _check_name(broker, request)
    topic = TopicRequestHeader.from_fields(request.fields).topic
    broker.topics.remove(topic, request.remote)
    broker.saver.save_now(FILE)
    if broker.settings.auto_delete_unused_stats:
        broker.stats.forget_topic(topic)
    broker.store.delete_topic(topic)
    return Response()


def _check_name(broker: BrokerContext, request: Request) -> None:
    """Raises Refused for an illegal name that no topic has, and for the name of a system topic."""
    topic = request.fields.get("topic")
    illegal = names.illegal_topic(topic)
    if illegal and (not topic or broker.topics.get(topic) is None):
        raise system_error(illegal)
    if broker.topics.is_system(topic or ""):
        raise system_error(f"The topic[{topic}] is conflict with system topic.")


def system_topics(broker: BrokerContext, request: Request) -> Reply:
    """GET_SYSTEM_TOPIC_LIST_FROM_BROKER (305)."""
    return Response(body=TopicList(broker.topics.system_names()).to_json())


def all_topics(broker: BrokerContext, request: Request) -> Reply:
    """GET_ALL_TOPIC_CONFIG (21)."""
    wrapper = broker.topics.wrapper()
    names_bytes = 2 * sum(map(len, wrapper.topic_config_table))
    check_whole(_TOPIC_BYTES_MIN * len(wrapper.topic_config_table) + names_bytes, "the topics")
    return Response(fields={}, body=wrapper.to_json())


def topic_stats(broker: BrokerContext, request: Request) -> Reply:
    """GET_TOPIC_STATS_INFO (202): one row for each write queue."""
    topic = TopicRequestHeader.from_fields(request.fields).topic
    config = broker.topics.get(topic)
    if config is None:
        return Response(ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist")
    store, name = broker.store, broker.settings.broker_name
    rows, size = {}, ReplySize()
    for queue_id in size.fitting(range(config.write_queue_nums), queue_bytes(topic)):
        low = max(0, store.min_offset(topic, queue_id))
        high = max(0, store.max_offset(topic, queue_id))
        last_ms = store.store_time_at(topic, queue_id, high - 1) if high > 0 else 0
        rows[MessageQueue(topic, name, queue_id)] = TopicOffset(low, high, last_ms)
    return Response(remark=size.remark(), body=TopicStatsTable(rows).to_json())

"""Codes 14, 15, 29 to 32, 43, 45 and 303: offsets (`ConsumerManageProcessor`,
`AdminBrokerProcessor`)."""

from __future__ import annotations

from datetime import datetime

from mqcommon import names
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
)
from mqcommon.wire.bodies.topics import QueryConsumeTimeSpanBody, QueueTimeSpan
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.headers.admin import QueryConsumeTimeSpanRequestHeader
from mqcommon.wire.headers.offsets import (
    OffsetResponseHeader,
    QueryConsumerOffsetRequestHeader,
    QueueRequestHeader,
    SearchOffsetRequestHeader,
    TimestampResponseHeader,
    UpdateConsumerOffsetRequestHeader,
)
from mqserver.broker.context import BrokerContext
from mqserver.broker.remarks import no_group, system_error
from mqserver.broker.reply_size import ReplySize, check_whole, queue_bytes
from mqserver.broker.state.groups import no_new_group, why_too_long
from mqserver.broker.state.topics import shown
from mqserver.runtime.processor_api import Reply, Request, Response

_DELAY_KEY = "scheduleMessageOffset_"
_TIMES = 3 * "2026-11-21#07:38:13:389"
"""The times of a row, for the estimate of its size."""


def query_offset(broker: BrokerContext, request: Request) -> Reply:
    """QUERY_CONSUMER_OFFSET (14): a new group starts at 0 if the whole queue is in memory, unless
    it asks to decide by itself, as clients of RocketMQ 5 do.
    """
    header = QueryConsumerOffsetRequestHeader.from_fields(request.fields)
    topic, queue_id, store = header.topic, header.queue_id, broker.store
    offset = store.committed(header.consumer_group, topic, queue_id)
    if offset is None or offset < 0:
        asks_zero = header.set_zero_if_not_found is not False
        untrimmed = store.min_offset(topic, queue_id) <= 0
        if not asks_zero or not untrimmed or store.is_on_disk(topic, queue_id, 0):
            remark = "Not found, V3_0_6_SNAPSHOT maybe this group consumer boot first"
            return Response(ResponseCode.QUERY_NOT_FOUND, remark, {})
        offset = 0
    return _offset(offset)


def update_offset(broker: BrokerContext, request: Request) -> Reply:
    """UPDATE_CONSUMER_OFFSET (15): commits an offset, which may be lower than the last one.

    RocketMQ accepts any names. This broker refuses the first commit of a group in a queue when it
    stores too many offsets, or when the clients of one address made too many for groups, topics or
    queues that do not exist. It never refuses a later commit.
    """
    header = UpdateConsumerOffsetRequestHeader.from_fields(request.fields)
    place = (header.consumer_group, header.topic, header.queue_id)
    if broker.store.commit(*place, header.commit_offset, entries_max=0):
        return Response(fields={})
    _check_names(broker, header.consumer_group, header.topic)
    unknown = why_unknown(broker, *place)
    if unknown is not None:
        return _commit_unknown(broker, request.remote, header, unknown)
    limit = broker.settings.consumer_offset_max
    if broker.store.commit(*place, header.commit_offset, entries_max=limit):
        return Response(fields={})
    setting = "consumerOffsetMax"
    remark = (
        f"the broker accepts no new offsets; the broker stores {setting}={limit} committed offsets"
    )
    raise broker.bounds.refused(ResponseCode.SYSTEM_ERROR, setting, remark)


def _commit_unknown(
    broker: BrokerContext,
    by: str,
    header: UpdateConsumerOffsetRequestHeader,
    unknown: tuple[ResponseCode, str],
) -> Reply:
    """Store the first offset of a group, topic or queue that does not exist, within the limits."""
    group, topic, queue_id = header.consumer_group, header.topic, header.queue_id
    setting, limit = "unknownGroupOffsetMax", broker.settings.unknown_group_offset_max
    code, what = unknown
    if why := broker.unasked.share_is_full("offsets", by, limit):
        raise broker.bounds.refused(code, setting, f"{what}; {why} of {setting}={limit}")
    if not broker.store.commit(group, topic, queue_id, header.commit_offset, entries_max=limit):
        remark = f"{what}; the broker stores {setting}={limit} committed offsets"
        raise broker.bounds.refused(code, setting, remark)
    if broker.bounds.source_of(by):
        broker.unasked.note("offsets", f"{topic}@{group}@{queue_id}", by)
    return Response(fields={})


def _check_names(broker: BrokerContext, group: str, topic: str) -> None:
    """Raises Refused for a name that no group or topic could have, unless one has that name."""
    if broker.groups.get(group) is None:
        if not names.is_legal_group(group):
            raise no_group(group)
        if reason := why_too_long(group):
            raise no_new_group(group, reason)
    illegal = names.illegal_topic(topic)
    if illegal and broker.topics.get(topic) is None:
        raise system_error(illegal)


def why_unknown(
    broker: BrokerContext, group: str, topic: str, queue_id: int
) -> tuple[ResponseCode, str] | None:
    """The code and remark for a commit to a group, topic or queue that does not exist, or None."""
    if broker.groups.get(group) is None:
        code = ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST
        return code, f"subscription group not exist, {group}"
    config = broker.topics.get(topic)
    if config is None:
        return ResponseCode.TOPIC_NOT_EXIST, f"topic[{topic}] not exist"
    queues = max(config.read_queue_nums, config.write_queue_nums)
    if not 0 <= queue_id < queues:
        return ResponseCode.SYSTEM_ERROR, f"queueId[{queue_id}] is illegal, {shown(config)}"
    return None


def search_offset(broker: BrokerContext, request: Request) -> Reply:
    """SEARCH_OFFSET_BY_TIMESTAMP (29)."""
    header = SearchOffsetRequestHeader.from_fields(request.fields)
    return _offset(broker.store.offset_by_time(header.topic, header.queue_id, header.timestamp))


def max_offset(broker: BrokerContext, request: Request) -> Reply:
    """GET_MAX_OFFSET (30)."""
    header = QueueRequestHeader.from_fields(request.fields)
    return _offset(broker.store.max_offset(header.topic, header.queue_id))


def min_offset(broker: BrokerContext, request: Request) -> Reply:
    """GET_MIN_OFFSET (31)."""
    header = QueueRequestHeader.from_fields(request.fields)
    return _offset(broker.store.min_offset(header.topic, header.queue_id))


def earliest_time(broker: BrokerContext, request: Request) -> Reply:
    """GET_EARLIEST_MSG_STORETIME (32): answers -1 if the queue is empty."""
    header = QueueRequestHeader.from_fields(request.fields)
    first = broker.store.min_offset(header.topic, header.queue_id)
    time_ms = broker.store.store_time_at(header.topic, header.queue_id, first)
    return Response(fields=TimestampResponseHeader(timestamp=time_ms).to_fields())


def all_offsets(broker: BrokerContext, request: Request) -> Reply:
    """GET_ALL_CONSUMER_OFFSET (43)."""
    offsets = broker.store.committed_all()
    check_whole(sum(len(key) + 5 * len(row) for key, row in offsets.items()), "the offsets")
    return Response(body=ConsumerOffsetSerializeWrapper(offsets).to_json())


def all_delay_offsets(broker: BrokerContext, request: Request) -> Reply:
    """GET_ALL_DELAY_OFFSET (45): the offsets of the levels that have delivered messages."""
    rows = {
        int(key.removeprefix(_DELAY_KEY)): int(value.partition(",")[0])
        for key, value in broker.store.runtime().items()
        if key.startswith(_DELAY_KEY)
    }
    table = {level: offset for level, offset in rows.items() if offset > 0}
    return Response(body=DelayOffsetSerializeWrapper(table).to_json())


def consume_time_span(broker: BrokerContext, request: Request) -> Reply:
    """QUERY_CONSUME_TIME_SPAN (303): when each queue's first, last and consumed message came."""
    header = QueryConsumeTimeSpanRequestHeader.from_fields(request.fields)
    config = broker.topics.get(header.topic)
    if config is None:
        return Response(ResponseCode.TOPIC_NOT_EXIST, f"topic[{header.topic}] not exist")
    size = ReplySize()
    queues = size.fitting(range(config.write_queue_nums), queue_bytes(header.topic + _TIMES))
    spans = [_time_span(broker, header, queue_id) for queue_id in queues]
    return Response(remark=size.remark(), body=QueryConsumeTimeSpanBody(spans).to_json())


def _time_span(
    broker: BrokerContext, header: QueryConsumeTimeSpanRequestHeader, queue_id: int
) -> QueueTimeSpan:
    store, topic = broker.store, header.topic
    first, end = store.min_offset(topic, queue_id), store.max_offset(topic, queue_id)
    first_ms = store.store_time_at(topic, queue_id, first)
    last_ms = store.store_time_at(topic, queue_id, end - 1)
    consumed = store.committed(header.group, topic, queue_id) or 0
    consumed_ms = store.store_time_at(topic, queue_id, consumed - 1) if consumed > 0 else first_ms
    delay_ms = 0
    if consumed < end:
        delay_ms = broker.now_ms() - store.store_time_at(topic, queue_id, consumed)
    return QueueTimeSpan(
        MessageQueue(topic, broker.settings.broker_name, queue_id),
        first_ms,
        last_ms,
        consumed_ms,
        delay_ms,
        _time_text(first_ms),
        _time_text(last_ms),
        _time_text(consumed_ms),
    )


def _time_text(time_ms: int) -> str:
    """A local time in RocketMQ's form, such as "2026-11-21#07:38:13:389"."""
    text = datetime.fromtimestamp(time_ms // 1000).strftime("%Y-%m-%d#%H:%M:%S")
    return f"{text}:{time_ms % 1000:03d}"


def _offset(offset: int) -> Response:
    return Response(fields=OffsetResponseHeader(offset=offset).to_fields())

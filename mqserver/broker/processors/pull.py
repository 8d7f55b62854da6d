"""Code 11, pulls, in the order of the steps of `PullMessageProcessor`.

The Rust data plane serves pulls that pass every check. This module answers pulls that fail a
check, and all pulls with `dataPlane=python`.
"""

from __future__ import annotations

from typing import NamedTuple

from mqcommon.names import RETRY_PREFIX, tag_hash, tags_of
from mqcommon.wire.bodies.groups import GroupConfig
from mqcommon.wire.bodies.heartbeat import SUBSCRIBE_ALL
from mqcommon.wire.codes import PullSysFlag, ResponseCode
from mqcommon.wire.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from mqserver.broker.context import BrokerContext
from mqserver.broker.offset_moved import note_moved
from mqserver.broker.remarks import FAQ, address, no_group, system_error
from mqserver.broker.state.consumers import BROADCASTING
from mqserver.broker.state.topics import READ
from mqserver.broker.tags import is_tag_type, is_too_long, sql_error
from mqserver.runtime.processor_api import Hold, Refused, Reply, Request, Response
from mqstore import GetResult

_CODES = {
    "FOUND": ResponseCode.SUCCESS,
    "MESSAGE_WAS_REMOVING": ResponseCode.PULL_RETRY_IMMEDIATELY,
    "NO_MATCHED_MESSAGE": ResponseCode.PULL_RETRY_IMMEDIATELY,
    "OFFSET_FOUND_NULL": ResponseCode.PULL_NOT_FOUND,
    "OFFSET_OVERFLOW_ONE": ResponseCode.PULL_NOT_FOUND,
    "OFFSET_OVERFLOW_BADLY": ResponseCode.PULL_OFFSET_MOVED,
    "OFFSET_RESET": ResponseCode.PULL_OFFSET_MOVED,
    "OFFSET_TOO_SMALL": ResponseCode.PULL_OFFSET_MOVED,
}
NO_FILTER_DATA = "The broker's consumer filter data is not exist!Your expression may be wrong!"
_NOT_THERE = (ResponseCode.PULL_NOT_FOUND, ResponseCode.PULL_OFFSET_MOVED)
_EMPTY = ("NO_MATCHED_LOGIC_QUEUE", "NO_MESSAGE_IN_QUEUE")


def pull(broker: BrokerContext, request: Request) -> Reply:
    """Check and read, then answer or hold the pull; every refusal has an empty header."""
    try:
        return _pull(broker, request)
    except Refused as refused:
        return Response(refused.response.code, refused.response.remark, {})


def _pull(broker: BrokerContext, request: Request) -> Reply:
    header = PullMessageRequestHeader.from_fields({"subVersion": "0", **request.fields})
    if not broker.settings.broker_permission & READ:
        remark = f"the broker[{address(broker)}] pulling message is forbidden"
        raise Refused(ResponseCode.NO_PERMISSION, remark)
    group = broker.groups.find(header.consumer_group, request.remote)
    if group is None:
        raise no_group(header.consumer_group)
    if not group.consume_enable:
        remark = f"subscription group no permission, {header.consumer_group}"
        raise Refused(ResponseCode.NO_PERMISSION, remark)
    _check_queue(broker, request, header)
    wanted = _filter(broker, header, group)
    first, settings = request.attempt == 0, broker.settings
    if first and header.sys_flag & PullSysFlag.COMMIT_OFFSET and not settings.is_slave:
        _commit(broker, header)
    store, topic, queue_id = broker.store, header.topic, header.queue_id
    found = store.take_reset(header.consumer_group, topic, queue_id)
    if found is None:
        found = store.get(topic, queue_id, header.queue_offset, header.max_msg_nums, *wanted)
    code, next_offset = _code_of(found, header.queue_offset), found.next_begin_offset
    if code in _NOT_THERE and not settings.corrects_offsets:
        # The copy of a slave may be behind, so that an offset that it lacks is no mistake.
        next_offset = header.queue_offset
        if code == ResponseCode.PULL_OFFSET_MOVED:
            code = ResponseCode.PULL_RETRY_IMMEDIATELY
    if code == ResponseCode.PULL_NOT_FOUND and first and header.sys_flag & PullSysFlag.SUSPEND:
        timeout_ms = header.suspend_timeout_millis
        if not settings.long_polling_enable:
            timeout_ms = settings.short_polling_time_mills
        tags = None if wanted.tag_codes is None else tuple(wanted.tag_codes)
        return Hold(header.topic, header.queue_id, header.queue_offset, timeout_ms / 1000, tags)
    if code == ResponseCode.PULL_OFFSET_MOVED:
        note_moved(broker, header, next_offset)
    elif code == ResponseCode.SUCCESS:
        count, size = found.message_count, len(found.body)
        broker.stats.got(topic, header.consumer_group, count, size, queue_id, found.behind_bytes)
    return _answer(broker, group, code, found, next_offset)


def _commit(broker: BrokerContext, header: PullMessageRequestHeader) -> None:
    """Commit the offset of a pull. The broker answers the pull even if it refuses the offset."""
    limit = broker.settings.consumer_offset_max
    place = (header.consumer_group, header.topic, header.queue_id)
    if not broker.store.commit(*place, header.commit_offset, entries_max=limit):
        remark = f"the offset in a pull of {place} is refused: the broker stores {limit} offsets"
        broker.bounds.refused(ResponseCode.SYSTEM_ERROR, "consumerOffsetMax", remark)


def _check_queue(broker: BrokerContext, request: Request, header: PullMessageRequestHeader) -> None:
    config = broker.topics.get(header.topic)
    if config is None:
        remark = f"topic[{header.topic}] not exist, apply first please! {FAQ}"
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
    if not config.perm & READ:
        remark = f"the topic[{header.topic}] pulling message is forbidden"
        raise Refused(ResponseCode.NO_PERMISSION, remark)
    if not 0 <= header.queue_id < config.read_queue_nums:
        remark = (
            f"queueId[{header.queue_id}] is illegal, topic:[{header.topic}] "
            f"topicConfig.readQueueNums:[{config.read_queue_nums}] consumer:[/{request.remote}]"
        )
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)


class _Filter(NamedTuple):
    """Selects messages with one of the tag codes, or that satisfy an expression.

    All fields None: selects all messages. retried: for redelivered messages, the expressions by
    the original topic.
    """

    tag_codes: list[int] | None = None
    sql: str | None = None
    retried: dict[str, str] | None = None


def _filter(broker: BrokerContext, header: PullMessageRequestHeader, group: GroupConfig) -> _Filter:
    """The filter of a pull, from the request or from the group's heartbeats."""
    is_inline = bool(header.sys_flag & PullSysFlag.SUBSCRIPTION)
    if is_inline:
        kind, text = header.expression_type, header.subscription or SUBSCRIBE_ALL
        if is_tag_type(kind) and not any(text.split("||")):
            remark = "parse the consumer's subscription failed"
            raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, remark)
        codes = [tag_hash(tag) for tag in tags_of(text)]
    else:
        kind, text, codes = _subscribed(broker, header, group)
    if is_tag_type(kind):
        if text != SUBSCRIBE_ALL:
            return _Filter(codes)
        return _Filter(retried=_retried(broker, header.topic))
    if not broker.settings.enable_property_filter:
        raise system_error(f"The broker does not support consumer to filter message by {kind}")
    wrong = sql_error(kind, text)
    if wrong is None:
        return _Filter(sql=text)
    if is_inline and is_too_long(text):
        raise Refused(ResponseCode.SUBSCRIPTION_PARSE_FAILED, wrong)
    if is_inline:
        # RocketMQ does not filter a pull whose expression it cannot compile.
        return _Filter()
    raise Refused(ResponseCode.FILTER_DATA_NOT_EXIST, NO_FILTER_DATA)


def _retried(broker: BrokerContext, topic: str) -> dict[str, str] | None:
    """The expressions for messages of a retry topic (`filterSupportRetry`); None without any."""
    if not broker.settings.filter_support_retry or not topic.startswith(RETRY_PREFIX):
        return None
    online = broker.consumers.get(topic.removeprefix(RETRY_PREFIX))
    found = {
        subscription.topic: subscription.sub_string
        for subscription in (online.subscriptions.values() if online else ())
        if sql_error(subscription.expression_type, subscription.sub_string) is None
    }
    return found or None


def _subscribed(
    broker: BrokerContext, header: PullMessageRequestHeader, group: GroupConfig
) -> tuple[str | None, str, list[int]]:
    online = broker.consumers.get(header.consumer_group)
    if online is None:
        remark = f"the consumer's group info not exist{FAQ}"
        raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if online.message_model == BROADCASTING and not group.consume_broadcast_enable:
        remark = f"the consumer group[{header.consumer_group}] can not consume by broadcast way"
        raise Refused(ResponseCode.NO_PERMISSION, remark)
    subscription = online.subscriptions.get(header.topic)
    if subscription is None:
        remark = f"the consumer's subscription not exist{FAQ}"
        raise Refused(ResponseCode.SUBSCRIPTION_NOT_EXIST, remark)
    if subscription.sub_version < header.sub_version:
        remark = "the consumer's subscription not latest"
        raise Refused(ResponseCode.SUBSCRIPTION_NOT_LATEST, remark)
    return subscription.expression_type, subscription.sub_string, subscription.code_set


def _code_of(found: GetResult, offset: int) -> ResponseCode:
    if found.status in _EMPTY:
        return ResponseCode.PULL_OFFSET_MOVED if offset else ResponseCode.PULL_NOT_FOUND
    return _CODES.get(found.status, ResponseCode.SYSTEM_ERROR)


def _answer(
    broker: BrokerContext,
    group: GroupConfig,
    code: ResponseCode,
    found: GetResult,
    next_offset: int,
) -> Response:
    suggested = 0
    if broker.settings.slave_read_enable:
        slow = found.suggest_slave
        suggested = group.which_broker_when_consume_slowly if slow else group.broker_id
    header = PullMessageResponseHeader(
        suggest_which_broker_id=suggested,
        next_begin_offset=next_offset,
        min_offset=found.min_offset,
        max_offset=found.max_offset,
    )
    body = found.body if code == ResponseCode.SUCCESS else None
    return Response(code, found.status, header.to_fields(), body)

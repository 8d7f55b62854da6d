"""Codes 10, 310 and 320, sends, in the order of the steps of `SendMessageProcessor`.

The Rust data plane serves ordinary sends. This module serves unusual sends, and all sends with
`dataPlane=python`. The replies are the same.
"""

from __future__ import annotations

import random

from mqcommon import names
from mqcommon.wire.bodies.topics import TopicConfig
from mqcommon.wire.codes import MessageSysFlag, RequestCode, ResponseCode
from mqcommon.wire.headers.send import SendMessageRequestHeader, SendMessageRequestHeaderV2
from mqserver.broker.context import BrokerContext
from mqserver.broker.message_text import store_form
from mqserver.broker.remarks import address, no_group
from mqserver.broker.sending import (
    check_queue,
    check_time_and_name,
    create_topic,
    create_topic_unsaved,
    not_available,
    region_and_trace,
    stored_place,
)
from mqserver.broker.state.topics import DEAD_LETTER_QUEUES
from mqserver.broker.transactions.writing import TYPE_BITS, half_text
from mqserver.runtime.processor_api import AgainAfter, Refused, Reply, Request, Response
from mqstore import PutResult

_VERSION_3_4_9 = 121

_STORED = {"PUT_OK": 0, "FLUSH_DISK_TIMEOUT": 10, "SLAVE_NOT_AVAILABLE": 11}
_STORED["FLUSH_SLAVE_TIMEOUT"] = 12
_NOT_STORED = {
    "CREATE_MAPEDFILE_FAILED": "create mapped file failed, server is busy or broken.",
    "OS_PAGECACHE_BUSY": "[PC_SYNCHRONIZED]broker busy, start flow control for a while",
    "LMQ_CONSUME_QUEUE_NUM_EXCEEDED": (
        "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]broker config enableLmq and enableMultiDispatch, "
        "lmq consumeQueue num exceed maxLmqConsumeQueueNum config num, default limit 2w."
    ),
    "UNKNOWN_ERROR": "UNKNOWN_ERROR",
}


def send(broker: BrokerContext, request: Request) -> Reply:
    """SEND_MESSAGE (10), SEND_MESSAGE_V2 (310), SEND_BATCH_MESSAGE (320)."""
    common = region_and_trace(broker)
    try:
        return _send(broker, request, common)
    except Refused as refused:
        answer = refused.response
        return Response(answer.code, answer.remark, common)


def _send(broker: BrokerContext, request: Request, common: dict[str, str]) -> Reply:
    short = request.code != RequestCode.SEND_MESSAGE
    check_time_and_name(broker, request.fields.get("b" if short else "topic"))
    kind = SendMessageRequestHeaderV2 if short else SendMessageRequestHeader
    header = kind.from_fields(request.fields)
    config = broker.topics.get(header.topic)
    if config is None:
        if request.attempt == 0:
            create_topic_unsaved(broker, header, request.remote)
            return AgainAfter(broker.creations.when_done)
        config = create_topic(broker, header, request.remote)
    check_queue(request, header, config)
    topic, queue_id = header.topic, header.queue_id
    if queue_id < 0:
        queue_id = random.randrange(max(1, config.write_queue_nums))
    if not header.batch and topic.startswith(names.RETRY_PREFIX):
        config, queue_id = _retry_or_dead(broker, request, header, config, queue_id)
    result = _put(broker, request, header, config, queue_id)
    return _answer(broker, result, queue_id, common)


def _retry_or_dead(
    broker: BrokerContext,
    request: Request,
    header: SendMessageRequestHeader,
    config: TopicConfig,
    queue_id: int,
) -> tuple[TopicConfig, int]:
    """The topic and queue of a retry: the dead-letter topic for a message that failed too often."""
    group_name = header.topic.removeprefix(names.RETRY_PREFIX)
    group = broker.groups.find(group_name, request.remote)
    if group is None:
        raise no_group(group_name)
    limit = group.retry_max_times
    if request.version >= _VERSION_3_4_9 and header.max_reconsume_times is not None:
        limit = header.max_reconsume_times
    if (header.reconsume_times or 0) < limit:
        return config, queue_id
    dead = names.dead_letter_topic(group_name)
    return broker.topics.ensure(dead, DEAD_LETTER_QUEUES, by=request.remote), 0


def _put(
    broker: BrokerContext,
    request: Request,
    header: SendMessageRequestHeader,
    config: TopicConfig,
    queue_id: int,
) -> PutResult:
    cluster = broker.settings.broker_cluster_name
    stored = store_form(header.properties or "", cluster, keep_wait=header.batch)
    is_half = stored.half and not header.batch
    if is_half and broker.settings.reject_transaction_message:
        remark = f"the broker[{address(broker)}] sending transaction message is forbidden"
        raise Refused(ResponseCode.NO_PERMISSION, remark)
    if header.batch and stored.delay_level > 0:
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, _illegal(broker))
    topic, text = config.topic_name, stored.text
    multi = MessageSysFlag.MULTI_TAGS if config.topic_filter_type == "MULTI_TAG" else 0
    sys_flag = header.sys_flag | multi
    if is_half:
        text, sys_flag = half_text(text, topic, queue_id), sys_flag & ~TYPE_BITS
        topic, queue_id = names.HALF_TOPIC, 0
    result = broker.store.put(
        topic,
        request.body,
        queue_id=queue_id,
        flag=header.flag,
        sys_flag=sys_flag,
        properties=text,
        born_timestamp_ms=header.born_timestamp,
        born_host=request.remote,
        store_host=broker.store_host,
        reconsume_times=header.reconsume_times or 0,
        wait_store_ok=stored.wait,
        delay_level=stored.delay_level,
        batch=header.batch,
    )
    if result.status in _STORED:
        sent = len(result.record_offsets), result.size_bytes
        broker.stats.put(topic, *sent, delay_level=stored.delay_level)
    return result


def _answer(
    broker: BrokerContext, result: PutResult, queue_id: int, common: dict[str, str]
) -> Response:
    if result.status in ("MESSAGE_ILLEGAL", "PROPERTIES_SIZE_EXCEEDED"):
        raise Refused(ResponseCode.MESSAGE_ILLEGAL, _illegal(broker))
    if result.status == "SERVICE_NOT_AVAILABLE":
        why = broker.store.refusal() or "the store is shut down"
        raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, not_available(why))
    if result.status not in _STORED:
        remark = _NOT_STORED.get(result.status, "UNKNOWN_ERROR DEFAULT")
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
    place = stored_place(broker, result, queue_id)
    return Response(_STORED[result.status], None, {**place, **common})


def _illegal(broker: BrokerContext) -> str:
    return (
        "the message is illegal, maybe msg body or properties length not matched. "
        f"msg body length limit {broker.settings.max_message_size}B, "
        "msg properties length limit 32KB."
    )

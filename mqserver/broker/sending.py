"""Shared by all sends: checks, topic creation and reply fields (`SendMessageProcessor`)."""

from __future__ import annotations

import time

from mqcommon import names
from mqcommon.message import ReceivedMessage, offset_msg_id
from mqcommon.wire.bodies.topics import TopicConfig
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.headers.send import SendMessageRequestHeader
from mqserver.broker.context import BrokerContext
from mqserver.broker.remarks import FAQ, no_group, sending_forbidden
from mqserver.broker.state.topics import FILE, WRITE, NewTopic, shown
from mqserver.runtime.processor_api import Refused, Request
from mqstore import PutResult


def region_and_trace(broker: BrokerContext) -> dict[str, str]:
    """The two fields that every reply to a send carries."""
    settings = broker.settings
    return {
        "MSG_REGION": settings.region_id,
        "TRACE_ON": "true" if settings.trace_on else "false",
    }


def check_time_and_name(broker: BrokerContext, topic: str | None) -> None:
    """Raises Refused if clients may not send to the topic, or the broker accepts no sends now."""
    settings = broker.settings
    start_ms = settings.start_accept_send_request_time_stamp
    if broker.now_ms() < start_ms:
        until = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(start_ms / 1000))
        remark = f"broker unable to service, until {until},{start_ms % 1000:03d}"
        raise Refused(ResponseCode.SYSTEM_ERROR, remark)
    config = broker.topics.get(topic or "")
    if not settings.broker_permission & WRITE and config is not None and config.order:
        raise sending_forbidden(broker)
    illegal = names.illegal_topic(topic)
    if illegal:
        raise Refused(ResponseCode.SYSTEM_ERROR, illegal)
    if topic in names.NO_SENDING:
        remark = f"Sending message to topic[{topic}] is forbidden."
        raise Refused(ResponseCode.NO_PERMISSION, remark)
    if not broker.accepting:
        raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, not_available("broker is stopping"))


def check_queue(request: Request, header: SendMessageRequestHeader, config: TopicConfig) -> None:
    """Raises Refused if the topic does not have the queue."""
    limit = max(config.read_queue_nums, config.write_queue_nums)
    if header.queue_id >= limit:
        remark = f"request queueId[{header.queue_id}] is illegal, {shown(config)}"
        raise Refused(ResponseCode.SYSTEM_ERROR, f"{remark} Producer: {request.remote}")


def create_topic(broker: BrokerContext, header: SendMessageRequestHeader, by: str) -> TopicConfig:
    """Create, announce and save the unknown topic of a send. Raises Refused if that is not allowed.

    by: the sender, "ip:port".
    """
    config = create_topic_unsaved(broker, header, by)
    broker.topics.announce()
    broker.saver.save_now(FILE)
    return config


def create_topic_unsaved(
    broker: BrokerContext, header: SendMessageRequestHeader, by: str
) -> TopicConfig:
    """Create the unknown topic of a send, but neither announce nor save it.

    The topic has to be saved before its first message is acknowledged: after a crash no consumer
    would find a message whose topic is unknown.
    """
    wanted = NewTopic(header.default_topic, header.default_topic_queue_nums, header.unit_mode)
    auto = broker.settings.auto_create_topic_enable
    is_retry = header.topic.startswith(names.RETRY_PREFIX)
    if is_retry:
        group = header.topic.removeprefix(names.RETRY_PREFIX)
        if broker.groups.find(group, by) is None:
            raise no_group(group)
    config = broker.topics.create_for_send(header.topic, wanted, auto, by)
    if config is None and is_retry:
        config, _ = broker.topics.ensured(header.topic, 1, by=by)
    if config is None:
        remark = f"topic[{header.topic}] not exist, apply first please!{FAQ}"
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, remark)
    return config


def stored_place(broker: BrokerContext, result: PutResult, queue_id: int) -> dict[str, str]:
    """The place of a stored message, as reply fields."""
    host, _, port = broker.store_host.rpartition(":")
    ids = (offset_msg_id(host.strip("[]"), int(port), at) for at in result.record_offsets)
    return {
        "queueId": str(queue_id),
        "msgId": ",".join(ids),
        "queueOffset": str(result.queue_offset),
    }


def put_again(
    broker: BrokerContext,
    message: ReceivedMessage,
    topic: str,
    queue_id: int,
    *,
    properties: bytes | None = None,
    sys_flag: int | None = None,
    flag: int = 0,
    reconsume_times: int = 0,
    prepared_transaction_offset: int = 0,
    delay_level: int = 0,
) -> PutResult:
    """Store a message of the log again in another place, with the same body, times and hosts.

    properties, sys_flag: None keeps the message's own. The call does not wait for the flush.
    Limits that were lowered since the message was accepted do not hold for it.
    """
    return broker.store.put(
        topic,
        message.stored_body,
        queue_id=queue_id,
        flag=flag,
        sys_flag=message.sys_flag if sys_flag is None else sys_flag,
        properties=message.stored_properties if properties is None else properties,
        born_timestamp_ms=message.born_timestamp_ms,
        born_host=message.born_host,
        store_host=message.store_host,
        reconsume_times=reconsume_times,
        prepared_transaction_offset=prepared_transaction_offset,
        wait_store_ok=False,
        delay_level=delay_level,
        was_accepted=True,
    )


def not_available(why: str) -> str:
    """The remark of SERVICE_NOT_AVAILABLE."""
    return (
        "service not available now. It may be caused by one of the following reasons: "
        f"the broker's disk is full [{why}], messages are put to the slave, "
        "message store has been shut down, etc."
    )

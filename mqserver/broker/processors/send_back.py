"""Code 36: a message that a consumer sends back is redelivered, or becomes a dead letter."""

from __future__ import annotations

import logging
import random

from mqcommon import names
from mqcommon.message import ReceivedMessage, decode_messages, encode_properties
from mqcommon.property_text import PROPERTIES_BYTES_MAX
from mqcommon.wire.bodies.groups import GroupConfig
from mqcommon.wire.bodies.topics import TopicConfig
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.headers.send import ConsumerSendMsgBackRequestHeader
from mqserver.broker.context import BrokerContext
from mqserver.broker.remarks import no_group, sending_forbidden, system_error
from mqserver.broker.sending import put_again
from mqserver.broker.state.topics import DEAD_LETTER_QUEUES, WRITE, unit_flag
from mqserver.runtime.processor_api import Refused, Reply, Request, Response
from mqstore import PutResult

log = logging.getLogger("mqserver.broker.retries")

_VERSION_3_4_9 = 121
_FIRST_DELAY_LEVEL = 3
_TOO_LONG = ("PROPERTIES_SIZE_EXCEEDED", "MESSAGE_ILLEGAL")


def send_back(broker: BrokerContext, request: Request) -> Reply:
    """CONSUMER_SEND_MSG_BACK (36), as in `SendMessageProcessor.asyncConsumerSendMsgBack`.

    Only the put result PUT_OK answers success.
    """
    header = ConsumerSendMsgBackRequestHeader.from_fields(request.fields)
    group = broker.groups.find(header.group, request.remote)
    if group is None:
        raise no_group(header.group)
    if not broker.settings.broker_permission & WRITE:
        raise sending_forbidden(broker)
    if group.retry_queue_nums <= 0:
        return Response()
    topic = names.retry_topic(header.group)
    flag = unit_flag(topic, header.unit_mode)
    retry = broker.topics.ensure(topic, group.retry_queue_nums, flag, request.remote)
    if not retry.perm & WRITE:
        remark = f"the topic[{topic}] sending message is forbidden"
        raise Refused(ResponseCode.NO_PERMISSION, remark)
    message = _message_at(broker, header.offset)
    broker.check_readable(request, message)
    config, queue_id, level = _destination(broker, request, header, group, message, retry)
    result = _put(broker, message, config, queue_id, level)
    if result.status in _TOO_LONG and len(config.topic_name.encode()) <= names.TOPIC_LENGTH_MAX:
        level, result = 0, _put_dead(broker, request, header.group, message)
    if result.status != "PUT_OK":
        raise system_error(_why(result.status, config.topic_name))
    origin = message.properties.get("RETRY_TOPIC", message.topic)
    broker.stats.sent_back(header.group, origin, result.size_bytes, level)
    return Response()


def _put_dead(
    broker: BrokerContext, request: Request, group: str, message: ReceivedMessage
) -> PutResult:
    """Make a dead letter of a message that has no room for the properties of a retry.

    The dead letter keeps its properties, and the consumer continues with the next messages.
    """
    topic = names.dead_letter_topic(group)
    dead = broker.topics.ensure(topic, DEAD_LETTER_QUEUES, by=request.remote).topic_name
    log.warning(
        "a message of topic %s, keys %r, id %s, is not redelivered to group %s but stored in %s: "
        "its %d bytes of properties leave no room for the properties of a retry; the limit is %d",
        message.topic, message.properties.get("KEYS", ""), message.offset_msg_id, group, dead,
        len(message.stored_properties), PROPERTIES_BYTES_MAX,
    )  # fmt: skip
    return put_again(
        broker,
        message,
        dead,
        0,
        flag=message.flag,
        reconsume_times=message.reconsume_times + 1,
    )


def _why(status: str, topic: str) -> str:
    """The remark for a failed put: RocketMQ's word, and the reason if the topic is too long."""
    size = len(topic.encode())
    if status != "MESSAGE_ILLEGAL" or size <= names.TOPIC_LENGTH_MAX:
        return status
    return (
        f"{status}: topic {topic} has {size} bytes; the topic of a message may have at most "
        f"{names.TOPIC_LENGTH_MAX}"
    )


def _message_at(broker: BrokerContext, offset: int) -> ReceivedMessage:
    record = broker.store.get_at(offset)
    if record is None:
        raise system_error(f"look message by offset failed, {offset}")
    return decode_messages(record)[0]


def _destination(
    broker: BrokerContext,
    request: Request,
    header: ConsumerSendMsgBackRequestHeader,
    group: GroupConfig,
    message: ReceivedMessage,
    retry: TopicConfig,
) -> tuple[TopicConfig, int, int]:
    """The topic, queue and delay level for the message: the retry or the dead-letter topic."""
    limit = group.retry_max_times
    if request.version >= _VERSION_3_4_9 and header.max_reconsume_times is not None:
        limit = header.max_reconsume_times
    if message.reconsume_times >= limit or header.delay_level < 0:
        topic = names.dead_letter_topic(header.group)
        return broker.topics.ensure(topic, DEAD_LETTER_QUEUES, by=request.remote), 0, 0
    level = header.delay_level or _FIRST_DELAY_LEVEL + message.reconsume_times
    return retry, random.randrange(group.retry_queue_nums), level


def _put(
    broker: BrokerContext, message: ReceivedMessage, config: TopicConfig, queue_id: int, level: int
) -> PutResult:
    properties = dict(message.properties)
    properties.setdefault("RETRY_TOPIC", message.topic)
    properties["WAIT"] = "false"
    properties["DELAY"] = str(level)
    properties.setdefault("ORIGIN_MESSAGE_ID", message.offset_msg_id)
    return put_again(
        broker,
        message,
        config.topic_name,
        queue_id,
        properties=encode_properties(properties),
        flag=message.flag,
        reconsume_times=message.reconsume_times + 1,
        delay_level=level,
    )

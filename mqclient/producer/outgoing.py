"""Prepares messages for sending: checks, identifies, compresses and encodes them. No IO.

Rules: RocketMQ 4.9 `DefaultMQProducerImpl`, `MessageDecoder.encodeMessages`.
"""

import struct
from collections.abc import Callable, Iterator, Sequence
from functools import partial

from mqclient.engine.namespace import Namespace
from mqclient.producer.compression import compress
from mqclient.settings.checks import check_sendable, check_topic
from mqclient.settings.producers import SendOptions
from mqcommon.message import (
    DELIVER_AT,
    Message,
    Outgoing,
    encode_batch,
    encode_properties,
    unique_id,
)
from mqcommon.names import REPLY_SUFFIX, RETRY_PREFIX
from mqcommon.property_text import PAIR_END, PROPERTIES_BYTES_MAX, Pair, text_of

__all__ = ["Outgoing", "Prepare", "into_namespace", "prepare", "prepare_batch"]

Prepare = Callable[[Message, SendOptions], Outgoing]
"""Makes one message ready to send; see `prepare`."""

RETRY_ROOM_BYTES = 640
"""Room that a new message leaves for the properties of a redelivery: its original topic
and id, its delay, its retry topic and queue, the broker's region and cluster."""
STORED_GROWTH_BYTES = 256
"""A message of a batch grows by at most this and its topic's name when a broker stores it: by the
record's header, and by properties of the broker. RocketMQ's limit counts the stored size
(`MessageExtBatchEncoder.encode`)."""
_PLAIN = {"WAIT": "true"}
_PLAIN_TEXT = text_of([Pair("WAIT", "true"), Pair("UNIQ_KEY", "")])
"""The properties of a message that has none of its own, up to its id."""


def prepare(message: Message, settings: SendOptions) -> Outgoing:
    """Make one message ready to send. The caller's object is not changed.

    Raises ValueError or TypeError for a message that brokers refuse: an illegal topic, an empty
    body, a body or properties over the limit.
    """
    topic, body = message.topic, message.body
    check_sendable(topic)
    size = len(body)
    if not 0 < size <= settings.body_bytes_max:
        _check_body(size, settings.body_bytes_max)
    properties = message.properties
    if properties == _PLAIN:  # no tag, no key, no id yet: nothing to encode
        msg_id = unique_id()
        result = Outgoing(topic, body, _PLAIN_TEXT + msg_id, msg_id, message.flag)
    else:
        result = _with_properties(message)
    result.born_timestamp_ms = message.born_timestamp_ms
    compression = settings.compression
    if compression is not None and size >= compression.threshold:
        result.body, result.sys_flag = compress(body, compression)
    return result


def _with_properties(message: Message) -> Outgoing:
    topic, properties = message.topic, message.properties
    is_retry = topic.startswith(RETRY_PREFIX)
    msg_id, text = _identified(properties, 0 if is_retry else RETRY_ROOM_BYTES)
    result = Outgoing(topic, message.body, text, msg_id, message.flag)
    if is_retry:
        result.reconsume_times = int(properties.get("RECONSUME_TIME", "0"))
        most = properties.get("MAX_RECONSUME_TIMES")
        result.max_reconsume_times = None if most is None else int(most)
    return result


def into_namespace(namespace: Namespace, outgoing: Outgoing) -> Outgoing:
    """Send it to the topic of its name in the namespace. Raises ValueError if that is too long.

    Rules: RocketMQ 4.9 `DefaultMQProducer.send`, `Message.setInstanceId`. A reply's topic belongs
    to the cluster, and is in no namespace.
    """
    if not outgoing.topic.endswith(REPLY_SUFFIX):
        outgoing.topic = check_topic(namespace.wrap(outgoing.topic))
        outgoing.properties += f"{PAIR_END}{Pair('INSTANCE_ID', namespace.name)}"
    return outgoing


def prepare_batch(messages: Sequence[Message], settings: SendOptions) -> list[Outgoing]:
    """Make several messages of one topic ready to be sent as a batch.

    Returns one Outgoing, or several in order if the batch would be stored as more than
    `body_bytes_max` bytes. Raises ValueError if the list is empty, mixes topics or wait_store_ok,
    holds a delayed message or one to a retry topic, or if one message is over the body limit.
    """
    if not messages:
        raise ValueError("the batch is empty; send at least one message")
    first = messages[0]
    check_sendable(first.topic)
    if first.topic.startswith(RETRY_PREFIX):
        raise ValueError(f"a batch cannot be sent to the retry topic {first.topic!r}")
    body, ids = encode_batch(messages, partial(_check_item, first))
    text = str(Pair("WAIT", "true" if first.wait_store_ok else "false"))
    growth = STORED_GROWTH_BYTES + len(first.topic)
    if len(body) + growth * len(messages) <= settings.body_bytes_max:
        return [Outgoing(first.topic, body, text, ids, batch=True)]
    for message in messages:
        _check_body(len(message.body), settings.body_bytes_max)
    names = ids.split(",")
    return [
        Outgoing(first.topic, body[start:end], text, ",".join(names[low:high]), batch=True)
        for start, end, low, high in _parts(body, growth, settings.body_bytes_max)
    ]


def _parts(body: bytes, growth: int, limit: int) -> Iterator[tuple[int, int, int, int]]:
    """Cut a batch's body: start and end of each part, in bytes and in messages.

    growth: bytes that each message grows by when it is stored. limit: stored bytes of a part; a
    part of one message may be larger.
    """
    start = low = at = index = stored = 0
    while at < len(body):
        (size,) = struct.unpack_from(">i", body, at)
        if index > low and stored + size + growth > limit:
            yield start, at, low, index
            start, low, stored = at, index, 0
        stored += size + growth
        at += size
        index += 1
    yield start, at, low, index


def _identified(properties: dict[str, str], room: int) -> tuple[str, str]:
    """A message's unique id (new if it has none), and its properties with the id as text.

    room: bytes that the text must leave.
    """
    msg_id = properties.get("UNIQ_KEY")
    if msg_id:
        return msg_id, _properties_text(properties, room)
    msg_id = unique_id()
    return msg_id, _properties_text({**properties, "UNIQ_KEY": msg_id}, room)


def _check_item(first: Message, message: Message) -> None:
    if not isinstance(message, Message):
        raise TypeError(f"a batch holds Message objects, not {type(message).__name__}")
    if message.topic != first.topic:
        raise ValueError(f"a batch has one topic, not {first.topic!r} and {message.topic!r}")
    if message.wait_store_ok != first.wait_store_ok:
        raise ValueError("all messages of a batch need the same wait_store_ok")
    if "DELAY" in message.properties and message.delay_level:
        raise ValueError("a batch cannot be delayed; send delayed messages one by one")
    if DELIVER_AT in message.properties:
        raise ValueError("a batch has no deliver_at; send such messages one by one")
    if not message.body:
        raise ValueError("the body is empty; a broker refuses that")


def _check_body(size: int, limit: int, what: str = "body") -> None:
    if not size:
        raise ValueError("the body is empty; a broker refuses that")
    if size > limit:
        raise ValueError(
            f"{what} has {size} bytes; the limit is {limit}: make it smaller, or raise "
            f"body_bytes_max here and maxMessageSize on the broker"
        )


def _properties_text(properties: dict[str, str], room: int) -> str:
    text = encode_properties(properties)
    limit = PROPERTIES_BYTES_MAX - room
    if len(text) > limit:
        why = f" ({PROPERTIES_BYTES_MAX}, less {room} that a redelivery needs)" if room else ""
        raise ValueError(f"properties take {len(text)} bytes; the limit is {limit}{why}")
    return text.decode()

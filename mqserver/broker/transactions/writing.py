"""Writes the messages of a transaction: half, final and op messages, and half messages given up.

A half message waits in an internal topic and names its real topic in its properties. An op message
marks a half message as ended: its body is the half message's queue offset.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import partial

from mqcommon import names
from mqcommon.message import ReceivedMessage, encode_properties
from mqcommon.property_text import PAIR_END, PROPERTIES_BYTES_MAX, Pair, pairs_of, text_of
from mqserver.broker.context import BrokerContext
from mqserver.broker.sending import put_again
from mqstore import PutResult

COMMIT = 8
ROLLBACK = 12
UNKNOWN = 0
TYPE_BITS = 0xC
"""The bits of the system flag for transactions: 0 none, 4 prepared, 8 commit, 12 rollback."""
DONE_TAG = "d"
STORED = frozenset({"PUT_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"})
"""The results of a put after which the message is in the log."""

NOT_NOW = frozenset({"SERVICE_NOT_AVAILABLE", "OS_PAGE_CACHE_BUSY", "CREATE_MAPPED_FILE_FAILED"})
"""The results of a put that may succeed later."""
TOO_LONG = frozenset({"PROPERTIES_SIZE_EXCEEDED", "MESSAGE_ILLEGAL"})
"""The results of a put whose message is too long for a record."""
CHECK_TIMES = "TRANSACTION_CHECK_TIMES"
QUEUE = 0
"""Half messages have one queue, and so have op messages."""

_RECORD_HEAD = struct.Struct(">iiii")
_BORN_HOST_V6, _STORE_HOST_V6 = 0x10, 0x20


def half_text(text: bytes, topic: str, queue_id: int) -> bytes:
    """The properties text of a half message whose real place is a queue of a topic."""
    real = text_of([Pair("REAL_TOPIC", topic), Pair("REAL_QID", str(queue_id))])
    return text + PAIR_END.encode() + real.encode()


def is_copy(half: ReceivedMessage) -> bool:
    """Whether a check stored this record as a copy of the half message."""
    return half.prepared_transaction_offset < 0


def number_of(half: ReceivedMessage) -> int:
    """The number of a transaction: the queue offset of its first half message.

    A copy has it in the field of the prepared transaction offset, as its complement. There is
    always room for it, and RocketMQ reads that field of committed messages only.
    """
    if is_copy(half):
        return ~half.prepared_transaction_offset
    return half.queue_offset


def checks_of(half: ReceivedMessage) -> int:
    """How many times the producer was asked. See `put_back` for where the count is."""
    text = half.properties.get(CHECK_TIMES, "")
    counted = int(text) if text.isdecimal() else 0
    return max(counted, half.reconsume_times) if is_copy(half) else counted


def is_half(message: ReceivedMessage) -> bool:
    """Whether a message names the queue that it is for; resumed checks store any message."""
    properties = message.properties
    return properties.get("REAL_QID", "").isdecimal() and "REAL_TOPIC" in properties


def put_final(broker: BrokerContext, half: ReceivedMessage) -> PutResult:
    """Store the committed message in its real topic; the call does not wait for the flush.

    REAL_TOPIC, REAL_QID and TRAN_MSG stay in the properties, as in RocketMQ.
    """
    properties = half.properties
    return put_again(
        broker,
        half,
        properties["REAL_TOPIC"],
        int(properties["REAL_QID"]),
        sys_flag=half.sys_flag & ~TYPE_BITS | COMMIT,
        reconsume_times=0 if is_copy(half) else half.reconsume_times,
        flag=half.flag,
        prepared_transaction_offset=half.commit_log_offset,
        delay_level=int(properties.get("DELAY", 0)),
    )


def put_done(broker: BrokerContext, half: ReceivedMessage, wait: bool = True) -> PutResult:
    """Store the op message that ends a half message."""
    return broker.store.put(
        names.OP_HALF_TOPIC,
        str(half.queue_offset).encode(),
        queue_id=half.queue_id,
        properties=encode_properties({"TAGS": DONE_TAG, "WAIT": "true"}),
        born_timestamp_ms=broker.now_ms(),
        born_host=broker.store_host,
        store_host=broker.store_host,
        wait_store_ok=wait,
    )


def put_back(
    broker: BrokerContext, half: ReceivedMessage, times: int, changes: Mapping[str, str]
) -> PutResult:
    """Store a half message again at the end of its queue, with changed properties.

    As in RocketMQ, the new message has no flag. times: its checks, which are a property as in
    RocketMQ. Where the properties have no room for it, they stay as they are, and the checks are
    counted as reconsume times.
    """
    kept = ~number_of(half) if half.topic == names.HALF_TOPIC or is_copy(half) else 0
    again = partial(
        put_again, broker, half, names.HALF_TOPIC, QUEUE, prepared_transaction_offset=kept
    )
    result = again(properties=changed_text(half, {**changes, CHECK_TIMES: str(times)}))
    if result.status in TOO_LONG:
        result = again(reconsume_times=times)
    if result.status in STORED and kept:
        broker.copies.add(~kept, result.queue_offset)
    return result


def changed_text(message: ReceivedMessage, changes: Mapping[str, str]) -> bytes:
    """The properties text of a message with changed properties; the others stay as they are."""
    kept = (p for p in pairs_of(_decoded(message.stored_properties)) if p.name not in changes)
    text = text_of([*kept, *(Pair(*change) for change in changes.items())])
    return text.encode("utf-8", "surrogateescape")


def _decoded(text: bytes) -> str:
    return text.decode("utf-8", "surrogateescape")


def put_given_up(broker: BrokerContext, half: ReceivedMessage, times: int) -> PutResult:
    """Keep an unfinished half message in a topic for operators. times: its checks, as a property
    if there is room."""
    again = partial(
        put_again,
        broker,
        half,
        broker.topics.ensure(names.CHECK_MAX_TIME_TOPIC, 1).topic_name,
        0,
        reconsume_times=half.reconsume_times,
        flag=half.flag,
        prepared_transaction_offset=~number_of(half),
    )
    if times == checks_of(half):
        return again()
    result = again(properties=changed_text(half, {CHECK_TIMES: str(times)}))
    return again() if result.status in TOO_LONG else result


def described(half: ReceivedMessage) -> str:
    """A half message as an operator knows it."""
    topic = half.properties.get("REAL_TOPIC", half.topic)
    keys = half.properties.get("KEYS")
    return f"half message of topic {topic}, keys {keys!r}, id {half.msg_id}"


def real_record(half: bytes, message: ReceivedMessage) -> bytes:
    """The record of a half message with its real topic and queue, as its producer knows it."""
    properties = message.properties
    topic = properties["REAL_TOPIC"].encode()
    text = changed_text(message, {"WAIT": "false"})
    if len(text) > PROPERTIES_BYTES_MAX:
        text = message.stored_properties
    _, magic, crc, _ = _RECORD_HEAD.unpack_from(half)
    hosts = (_BORN_HOST_V6, _STORE_HOST_V6)
    body_at = 68 + sum(20 if message.sys_flag & bit else 8 for bit in hosts)
    body_end = body_at + 4 + len(message.stored_body)
    tail = struct.pack(">B", len(topic)) + topic + struct.pack(">h", len(text)) + text
    size = body_end + len(tail)
    head = _RECORD_HEAD.pack(size, magic, crc, int(properties["REAL_QID"]))
    return head + half[_RECORD_HEAD.size : body_end] + tail

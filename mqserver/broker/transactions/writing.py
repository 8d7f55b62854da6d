"""Writes the messages of a transaction: half, final and op messages, and half messages given up.

A half message waits in an internal topic and names its real topic in its properties. An op message
marks a half message as ended: its body is the half message's queue offset.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from mqserver.broker.context import BrokerContext
from mqserver.broker.sending import put_again
from mqstore import PutResult, ReceivedMessage, encode_properties, names
from mqstore.property_text import PAIR_END, Pair, text_of

COMMIT = 8
ROLLBACK = 12
UNKNOWN = 0
TYPE_BITS = 0xC
"""The bits of the system flag for transactions: 0 none, 4 prepared, 8 commit, 12 rollback."""
DONE_TAG = "d"
STORED = frozenset({"PUT_OK", "FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE"})
"""The results of a put after which the message is in the log."""

_RECORD_HEAD = struct.Struct(">iiii")
_BORN_HOST_V6, _STORE_HOST_V6 = 0x10, 0x20


def half_text(text: bytes, topic: str, queue_id: int) -> bytes:
    """The properties text of a half message whose real place is a queue of a topic."""
    real = text_of([Pair("REAL_TOPIC", topic), Pair("REAL_QID", str(queue_id))])
    return text + PAIR_END.encode() + real.encode()


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
        reconsume_times=half.reconsume_times,
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


def put_back(broker: BrokerContext, half: ReceivedMessage, changes: Mapping[str, str]) -> PutResult:
    """Store a half message again at the end of its queue, with changed properties.

    As in RocketMQ, the new message has neither flag nor reconsume times.
    """
    text = encode_properties({**half.properties, **changes})
    return put_again(broker, half, names.HALF_TOPIC, half.queue_id, properties=text)


def put_given_up(
    broker: BrokerContext, half: ReceivedMessage, changes: Mapping[str, str]
) -> PutResult:
    """Keep an unfinished half message in a topic for operators, with changed properties."""
    return put_again(
        broker,
        half,
        broker.topics.ensure(names.CHECK_MAX_TIME_TOPIC, 1).topic_name,
        0,
        properties=encode_properties({**half.properties, **changes}) if changes else None,
        reconsume_times=half.reconsume_times,
        flag=half.flag,
    )


def real_record(half: bytes, message: ReceivedMessage) -> bytes:
    """The record of a half message with its real topic and queue, as its producer knows it."""
    properties = {**message.properties, "WAIT": "false"}
    topic = properties["REAL_TOPIC"].encode()
    text = encode_properties(properties)
    _, magic, crc, _ = _RECORD_HEAD.unpack_from(half)
    hosts = (_BORN_HOST_V6, _STORE_HOST_V6)
    body_at = 68 + sum(20 if message.sys_flag & bit else 8 for bit in hosts)
    body_end = body_at + 4 + len(message.stored_body)
    tail = struct.pack(">B", len(topic)) + topic + struct.pack(">h", len(text)) + text
    size = body_end + len(tail)
    head = _RECORD_HEAD.pack(size, magic, crc, int(properties["REAL_QID"]))
    return head + half[_RECORD_HEAD.size : body_end] + tail

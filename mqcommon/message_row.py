"""A message as a row with RocketMQ's names, for `dump`, `export` and `mqclient tail`."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from mqcommon.message import DecodeError, ReceivedMessage, is_body_sound

__all__ = ["BODIES", "message_row"]

BODIES: dict[str, Callable[[bytes], str]] = {
    "text": lambda body: body.decode("utf-8", "replace"),
    "hex": bytes.hex,
    "base64": lambda body: base64.b64encode(body).decode(),
}
"""Formats of a body."""


def message_row(message: ReceivedMessage, body: str) -> dict[str, Any]:
    """A message as a row with RocketMQ's names.

    body: text, hex, base64 or none. The row has `bodyError` if the body is damaged, or does not
    decompress and is None.
    """
    row: dict[str, Any] = {
        "topic": message.topic,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.commit_log_offset,
        "storeSize": message.store_size,
        "msgId": message.msg_id,
        "offsetMsgId": message.offset_msg_id,
        "tags": message.tags,
        "keys": message.properties.get("KEYS"),
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "bornTimestamp": message.born_timestamp_ms,
        "bornHost": message.born_host,
        "storeTimestamp": message.store_timestamp_ms,
        "storeTime": _time_text(message),
        "storeHost": message.store_host,
        "reconsumeTimes": message.reconsume_times,
        "preparedTransactionOffset": message.prepared_transaction_offset,
        "bodyCRC": message.body_crc,
        "properties": message.properties,
    }
    if body != "none":
        try:
            row["body"] = BODIES[body](message.body)
            if not is_body_sound(message.stored_body, message.body_crc):
                row["bodyError"] = "the body does not match bodyCRC: it is damaged"
        except DecodeError as error:
            row |= {"body": None, "bodyError": str(error)}
    return row


def _time_text(message: ReceivedMessage) -> str | None:
    try:
        return message.store_timestamp.isoformat(timespec="milliseconds")
    except DecodeError:  # the time is out of range; the number itself is in storeTimestamp
        return None

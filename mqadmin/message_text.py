"""Messages as RocketMQ's commands show them, and as JSON."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from mqadmin.command import Arguments, UsageError
from mqadmin.java_text import java_map, java_object, java_value, millis_text
from mqclient.admin import MessageTrack
from mqcommon.message import DecodeError, ReceivedMessage
from mqcommon.message_row import message_row
from mqcommon.wire.bodies.running import ConsumeMessageDirectlyResult

__all__ = [
    "MESSAGE_COLUMNS",
    "charset_of",
    "directly_text",
    "message_block",
    "message_fields",
    "message_line",
    "tracks_text",
]

MESSAGE_COLUMNS = (
    "topic", "queueId", "queueOffset", "commitLogOffset", "storeSize", "msgId", "offsetMsgId",
    "tags", "keys", "flag", "sysFlag", "bornTimestamp", "bornHost", "storeTimestamp", "storeTime",
    "storeHost", "reconsumeTimes", "preparedTransactionOffset", "bodyCRC", "properties",
    "brokerName", "body", "bodyHex",
)  # fmt: skip
"""The fields of `message_fields`."""


def message_fields(message: ReceivedMessage) -> dict[str, object]:
    """A message as JSON. `body` is its text; bytes that are not UTF-8 are in `bodyHex` instead.

    A body that does not decompress is there as it is stored, and `bodyError` says why.
    """
    row: dict[str, object] = message_row(message, "none")
    row["brokerName"] = message.broker_name or None
    row["body"] = row["bodyHex"] = None
    try:
        row["body"] = message.body.decode()
    except UnicodeDecodeError:
        row["bodyHex"] = message.body.hex()
    except DecodeError as error:
        row["bodyHex"], row["bodyError"] = message.stored_body.hex(), str(error)
    return row


def message_block(
    message: ReceivedMessage, tracks: Sequence[MessageTrack], *, with_id: bool, copy: int = 0
) -> str:
    """RocketMQ's block of a message, which ends with the fate of the message in each group.

    Saves the body to a file, which the block names. with_id: begin with the offset id. copy: number
    of the copy, if the message has several.
    """
    lines = {
        **({"OffsetID:": message.offset_msg_id} if with_id else {}),
        "Topic:": message.topic,
        "Tags:": f"[{java_value(message.tags)}]",
        "Keys:": f"[{java_value(message.properties.get('KEYS'))}]",
        "Queue ID:": message.queue_id,
        "Queue Offset:": message.queue_offset,
        "CommitLog Offset:": message.commit_log_offset,
        "Reconsume Times:": message.reconsume_times,
        "Born Timestamp:": millis_text(message.born_timestamp_ms),
        "Store Timestamp:": millis_text(message.store_timestamp_ms),
        "Born Host:": message.born_host,
        "Store Host:": message.store_host,
        "System Flag:": message.sys_flag,
        "Properties:": java_map(message.properties),
        "Message Body Path:": _save_body(message, copy),
    }
    block = "".join(f"{label:<20} {value}\n" for label, value in lines.items())
    return f"{block}\n\n{tracks_text(tracks)}"


def tracks_text(tracks: Iterable[MessageTrack]) -> str:
    """The fate of a message in each group."""
    return "".join(map(str, tracks)) or "WARN: No Consumer"


def message_line(message: ReceivedMessage, charset: str | None) -> str:
    """RocketMQ's line of a message. charset: of the body; None leaves the body out."""
    body = "NOT PRINT BODY" if charset is None else message.body.decode(charset, "replace")
    return f"MSGID: {message.msg_id} {_message_text(message)} BODY: {body}"


def _message_text(message: ReceivedMessage) -> str:
    """`MessageExt.toString`."""
    body = ", ".join(str(byte - 256 if byte > 127 else byte) for byte in message.body)
    is_transaction = (message.properties.get("TRAN_MSG") or "").lower() == "true"
    transaction_id = message.msg_id if is_transaction else None
    return (
        f"MessageExt [brokerName={message.broker_name}, queueId={message.queue_id}, "
        f"storeSize={message.store_size}, queueOffset={message.queue_offset}, "
        f"sysFlag={message.sys_flag}, bornTimestamp={message.born_timestamp_ms}, "
        f"bornHost=/{message.born_host}, storeTimestamp={message.store_timestamp_ms}, "
        f"storeHost=/{message.store_host}, msgId={message.offset_msg_id}, "
        f"commitLogOffset={message.commit_log_offset}, bodyCRC={message.body_crc}, "
        f"reconsumeTimes={message.reconsume_times}, "
        f"preparedTransactionOffset={message.prepared_transaction_offset}, "
        f"toString()=Message{{topic='{message.topic}', flag={message.flag}, "
        f"properties={java_map(message.properties)}, body=[{body}], "
        f"transactionId='{java_value(transaction_id)}'}}]"
    )


def directly_text(result: ConsumeMessageDirectlyResult) -> str:
    """`ConsumeMessageDirectlyResult.toString`."""
    fields = {
        "order": result.order,
        "autoCommit": result.auto_commit,
        "consumeResult": result.consume_result,
        "remark": result.remark,
        "spentTimeMills": result.spent_time_mills,
    }
    return java_object("ConsumeMessageDirectlyResult", fields)


def charset_of(arguments: Arguments) -> str:
    """The charset of bodies; raises UsageError for a charset that Python does not know."""
    name = arguments.text("charsetName") or "UTF-8"
    try:
        b"".decode(name)
    except LookupError:
        raise UsageError(f"--charsetName: there is no charset {name!r}") from None
    return name


def _save_body(message: ReceivedMessage, copy: int) -> Path:
    """Write the body where RocketMQ does: rocketmq/msgbodys in the temporary folder."""
    folder = Path(tempfile.gettempdir(), "rocketmq", "msgbodys")
    folder.mkdir(parents=True, exist_ok=True)
    # The id is the producer's text: anything but an id must not choose the file.
    is_id = re.fullmatch(r"[0-9A-Fa-f]{16,64}", message.msg_id)
    name = message.msg_id if is_id else message.offset_msg_id
    path = folder / (f"{name}_{copy}" if copy else name)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(message.body)
    return path

"""mqadmin queryMsgById: one message by its id, and its fate in each group.

RocketMQ takes offset ids here. The ids that sends print are unique keys; they work too.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.java_text import java_map, millis_text
from mqadmin.report import Report
from mqclient.admin import Admin
from mqclient.admin.messages import MessageTrack
from mqcommon.cli.running import refusing_arguments
from mqcommon.message import ReceivedMessage, parse_offset_msg_id
from mqcommon.wire.bodies.running import ConsumeMessageDirectlyResult

Found = tuple[ReceivedMessage, list[MessageTrack]]


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Look the messages up, or with -g and -d let a member consume them now."""
    ids = _message_ids(arguments.required("msgId"))
    if arguments.is_true("sendMessage"):
        raise UsageError("-s (send the message again) is not built yet")
    group, client = arguments.text("consumerGroup"), arguments.text("clientId")
    topic = arguments.text("topic")
    if group and client:
        return await _consume(admin, group, client, ids, topic)
    found = []
    for msg_id in ids:
        with refusing_arguments():
            message = await admin.messages.view(msg_id, topic)
        found.append((message, await admin.messages.track(message)))
    rows = [message_row(message, tracks) for message, tracks in found]
    return Report(rows, lambda: "\n".join(map(message_text, found)), single=len(rows) == 1)


def _message_ids(text: str) -> list[str]:
    """Ids separated by commas; each is checked before a broker is asked."""
    ids = [word.strip() for word in text.split(",") if word.strip()]
    try:
        for msg_id in ids:
            parse_offset_msg_id(msg_id)
    except ValueError as error:
        raise UsageError(f"{error}, and neither is it a unique key, the msgId of a send") from error
    return ids


async def _consume(
    admin: Admin, group: str, client: str, ids: list[str], topic: str | None
) -> Report:
    """Let one member consume each message now."""
    results = []
    for msg_id in ids:
        with refusing_arguments():
            message = await admin.messages.view(msg_id, topic)
        results.append(await admin.messages.consume_directly(group, client, message))
    rows = [result.to_plain() for result in results]
    return Report(rows, lambda: "\n".join(map(_result_text, results)), single=len(rows) == 1)


def _result_text(result: ConsumeMessageDirectlyResult) -> str:
    order, commit = str(result.order).lower(), str(result.auto_commit).lower()
    return (
        f"ConsumeMessageDirectlyResult [order={order}, autoCommit={commit}, "
        f"consumeResult={_or_null(result.consume_result)}, remark={_or_null(result.remark)}, "
        f"spentTimeMills={result.spent_time_mills}]"
    )


def message_row(message: ReceivedMessage, tracks: list[MessageTrack]) -> dict[str, object]:
    """A message as JSON: the body as text when it is UTF-8, else as hex."""
    try:
        body = {"body": message.body.decode()}
    except UnicodeDecodeError:
        body = {"bodyHex": message.body.hex()}
    return {
        "offsetMsgId": message.offset_msg_id,
        "msgId": message.msg_id,
        "topic": message.topic,
        "tags": message.tags,
        "keys": message.keys,
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.commit_log_offset,
        "reconsumeTimes": message.reconsume_times,
        "bornTimestamp": message.born_timestamp_ms,
        "storeTimestamp": message.store_timestamp_ms,
        "bornHost": message.born_host,
        "storeHost": message.store_host,
        "sysFlag": message.sys_flag,
        "properties": dict(message.properties),
        **body,
        "tracks": [
            {"consumerGroup": track.consumer_group, "trackType": track.track_type}
            for track in tracks
        ],
    }


def message_text(found: Found) -> str:
    """RocketMQ's block of a message, then its tracks."""
    message, tracks = found
    lines = {
        "OffsetID:": message.offset_msg_id,
        "Topic:": message.topic,
        "Tags:": f"[{_or_null(message.tags)}]",
        "Keys:": f"[{_or_null(message.keys)}]",
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
        "Message Body Path:": save_body(message),
    }
    block = "".join(f"{label:<20} {value}\n" for label, value in lines.items())
    if not tracks:
        return f"{block}\n\nWARN: No Consumer"
    return f"{block}\n\n{''.join(map(str, tracks))}"


def _or_null(text: str | None) -> str:
    return "null" if text is None else text


def save_body(message: ReceivedMessage) -> Path:
    """Write the body where RocketMQ does: rocketmq/msgbodys in the temporary folder."""
    folder = Path(tempfile.gettempdir(), "rocketmq", "msgbodys")
    folder.mkdir(parents=True, exist_ok=True)
    # The id is the producer's text: anything but an id must not choose the file.
    is_id = re.fullmatch(r"[0-9A-Fa-f]{16,64}", message.msg_id)
    path = folder / (message.msg_id if is_id else message.offset_msg_id)
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_NOFOLLOW", 0)
    with open(os.open(path, flags, 0o600), "wb") as file:
        file.write(message.body)
    return path


QUERY_MSG_BY_ID = Command(
    "queryMsgById",
    run,
    [
        Option("i", "msgId", "Message Id", required=True),
        Option("g", "consumerGroup", "consumer group name"),
        Option("d", "clientId", "The consumer's client id"),
        Option("s", "sendMessage", "resend message"),
        Option("u", "unitName", "unit name"),
    ],
    more_options=[Option("t", "topic", "topic of a unique key; every topic is searched without")],
)

"""mqadmin queryMsgById: messages by id, and their fate in each group.

RocketMQ takes offset ids here. The ids that sends print are unique keys; they work too.
"""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.message_text import directly_text, message_block, message_fields
from mqadmin.report import Report
from mqclient.admin import Admin, MessageTrack
from mqclient.cli.send_row import send_row
from mqclient.errors import RocketMQError
from mqclient.producer.copies import copy_of
from mqcommon.cli.running import refusing_arguments
from mqcommon.message import ReceivedMessage, parse_offset_msg_id

RESEND_GROUP = "ReSendMsgById"


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Look the messages up; with -g and -d let a client consume them, with -s send them again."""
    ids = _message_ids(arguments.required("msgId"))
    found = []
    for msg_id in ids:
        with refusing_arguments():
            found.append(await admin.messages.view(msg_id, arguments.text("topic")))
    group, client = arguments.text("consumerGroup"), arguments.text("clientId")
    if group and client:
        return await consume(admin, group, client, found)
    if arguments.text("sendMessage") is not None:
        wanted = found if arguments.is_true("sendMessage") else []
        return await _send_again(admin, dict(zip(ids, wanted, strict=False)), arguments)
    return await tracked(admin, found, single=len(found) == 1)


def _message_ids(text: str) -> list[str]:
    """Ids separated by commas; each is checked before a broker is asked."""
    ids = [word.strip() for word in text.split(",") if word.strip()]
    try:
        for msg_id in ids:
            parse_offset_msg_id(msg_id)
    except ValueError as error:
        raise UsageError(f"{error}, and neither is it a unique key, the msgId of a send") from error
    return ids


async def tracked(
    admin: Admin, messages: list[ReceivedMessage], *, single: bool, copies: bool = False
) -> Report:
    """Show messages and their fate in each group.

    copies: the messages are copies of one; RocketMQ shows no offset ids then.
    """
    shown = [(message, await admin.messages.track(message)) for message in messages]

    def text() -> str:
        return "".join(
            message_block(message, tracks, with_id=not copies, copy=number if copies else 0)
            for number, (message, tracks) in enumerate(shown)
        )

    return Report([_tracked_row(*one) for one in shown], text, single=single)


def _tracked_row(message: ReceivedMessage, tracks: list[MessageTrack]) -> dict[str, object]:
    return {
        **message_fields(message),
        "tracks": [
            {
                "consumerGroup": track.consumer_group,
                "trackType": track.track_type,
                "exceptionDesc": track.exception,
            }
            for track in tracks
        ],
    }


async def consume(admin: Admin, group: str, client: str, messages: list[ReceivedMessage]) -> Report:
    """Let one client of a group consume each message now."""
    results = [await admin.messages.consume_directly(group, client, m) for m in messages]
    rows = [
        {"msgId": message.msg_id, "consumerGroup": group, "clientId": client, **result.to_plain()}
        for message, result in zip(messages, results, strict=True)
    ]
    return Report(rows, lambda: "\n".join(map(directly_text, results)), single=len(rows) == 1)


async def _send_again(
    admin: Admin, messages: dict[str, ReceivedMessage], arguments: Arguments
) -> Report:
    """Send copies of the messages, by the ids they were asked for."""
    results = {}
    async with admin.producer(RESEND_GROUP, unit=arguments.text("unitName")) as producer:
        for msg_id, message in messages.items():
            copy, _ = copy_of(message)
            if copy is None:
                raise RocketMQError(
                    f"message {msg_id} is in {message.topic}, where only RocketMQ itself sends"
                )
            results[msg_id] = await producer.send(copy)
    rows = [{"originalMsgId": msg_id, **send_row(result)} for msg_id, result in results.items()]
    texts = [f"prepare resend msg. originalMsgId={i}{result}" for i, result in results.items()]
    return Report(rows, lambda: "\n".join(texts), single=len(rows) == 1)


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

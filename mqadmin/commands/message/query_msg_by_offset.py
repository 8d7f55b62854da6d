"""mqadmin queryMsgByOffset: the message at an offset of a queue."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.commands.message.query_msg_by_id import tracked_fields
from mqadmin.message_text import message_block
from mqadmin.report import Report
from mqclient.admin import Admin
from mqcommon.message import MessageQueue


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Read one message; RocketMQ's text is empty where there is none."""
    queue = MessageQueue(
        arguments.required("topic"),
        arguments.required("brokerName"),
        arguments.number("queueId", 0),
    )
    page = await admin.messages.read(queue, arguments.number("offset", 0), 1)
    shown = [(message, await admin.messages.track(message)) for message in page.messages[:1]]
    rows = [tracked_fields(message, tracks) for message, tracks in shown]
    return Report(
        rows, lambda: "".join(message_block(*one, with_id=True) for one in shown), single=True
    )


QUERY_MSG_BY_OFFSET = Command(
    "queryMsgByOffset",
    run,
    [
        Option("t", "topic", "topic name", required=True),
        Option("b", "brokerName", "Broker Name", required=True),
        Option("i", "queueId", "Queue Id", required=True),
        Option("o", "offset", "Queue Offset", required=True),
    ],
)

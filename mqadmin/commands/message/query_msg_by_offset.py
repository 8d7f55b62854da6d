"""mqadmin queryMsgByOffset: the message at an offset of a queue."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.commands.message.query_msg_by_id import tracked
from mqadmin.queue_reading import queue_of
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Read one message; RocketMQ's text is empty where there is none."""
    queue = queue_of(arguments)
    page = await admin.messages.read(queue, arguments.number("offset", 0), 1)
    return await tracked(admin, page.messages[:1], single=True)


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

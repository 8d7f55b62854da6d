"""mqadmin queryMsgByKey: messages of a topic that have a key, oldest first."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.message_text import message_fields
from mqadmin.report import Report
from mqclient.admin import Admin
from mqcommon.message import ReceivedMessage

COLUMNS = ("msgId", "brokerName", "queueId", "queueOffset", "storeTimestamp", "tags")


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask the brokers' index for at most 64 messages."""
    found = await admin.messages.query(arguments.required("topic"), arguments.required("msgKey"))
    return Report([message_fields(m) for m in found], lambda: _table(found), columns=COLUMNS)


def _table(messages: list[ReceivedMessage]) -> str:
    lines = [f"{'#Message ID':<50} {'#QID':>4} {'#Offset':>40}"]
    lines += [f"{m.msg_id:<50} {m.queue_id:>4} {m.queue_offset:>40}" for m in messages]
    return "\n".join(lines)


QUERY_MSG_BY_KEY = Command(
    "queryMsgByKey",
    run,
    [
        Option("t", "topic", "topic name", required=True),
        Option("k", "msgKey", "Message Key", required=True),
    ],
)

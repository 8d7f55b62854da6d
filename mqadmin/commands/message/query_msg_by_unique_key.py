"""mqadmin queryMsgByUniqueKey: a message by the msgId of its send, and its fate in each group."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.commands.message.query_msg_by_id import consume, tracked
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Look the message up, or with -g and -d let a client consume it now."""
    copies = await admin.messages.copies(arguments.required("topic"), arguments.required("msgId"))
    group, client = arguments.text("consumerGroup"), arguments.text("clientId")
    if group and client:
        return await consume(admin, group, client, copies[:1])
    shows_all = arguments.flag("showAll")
    wanted = copies if shows_all else copies[:1]
    return await tracked(admin, wanted, single=not shows_all, copies=True)


QUERY_MSG_BY_UNIQUE_KEY = Command(
    "queryMsgByUniqueKey",
    run,
    [
        Option("i", "msgId", "Message Id", required=True),
        Option("g", "consumerGroup", "consumer group name"),
        Option("d", "clientId", "The consumer's client id"),
        Option("t", "topic", "The topic of msg", required=True),
        Option("a", "showAll", "Print all message, the limit is 32", takes_value=False),
    ],
)

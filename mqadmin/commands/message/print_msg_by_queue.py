"""mqadmin printMsgByQueue: the messages of one queue, or how many have each tag."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

from mqadmin.command import Arguments, Command, Option
from mqadmin.commands.message.print_msg import BEGIN_HELP, CHARSET, END_HELP, EXPRESSION
from mqadmin.java_text import hash_order
from mqadmin.message_text import MESSAGE_COLUMNS, charset_of, message_fields, message_line
from mqadmin.queue_reading import extent, pages, queue_of
from mqadmin.report import Piece, Stream
from mqclient.admin import Admin
from mqcommon.message import MessageQueue

TAG_COLUMNS = ("tag", "count")


async def run(admin: Admin, arguments: Arguments) -> Stream:
    """Read the queue. With -f alone, the rows are tags and counts; else they are messages."""
    queue = queue_of(arguments)
    counts_only = arguments.is_true("calculate") and not arguments.is_true("print_msg")
    columns = TAG_COLUMNS if counts_only else MESSAGE_COLUMNS
    return Stream(_pieces(admin, queue, arguments, charset_of(arguments), counts_only), columns)


async def _pieces(
    admin: Admin, queue: MessageQueue, arguments: Arguments, charset: str, counts_only: bool
) -> AsyncIterator[Piece]:
    shown_charset = charset if arguments.is_true("printBody") else None
    prints = arguments.is_true("print_msg")
    counts: Counter[str] = Counter()
    low, high = await extent(admin, queue, arguments)
    async for page in pages(admin, queue, low, high, tags=arguments.text("subExpression") or "*"):
        if page.status == "NO_MATCHED_MSG":
            break  # RocketMQ ends here, too
        for message in page.messages:
            if (message.tags or "").strip():
                counts[str(message.tags)] += 1
            text = message_line(message, shown_charset) if prints else None
            yield Piece(text, None if counts_only else message_fields(message))
    if arguments.is_true("calculate"):
        for tag in sorted(hash_order(counts), key=lambda tag: -counts[tag]):
            row = {"tag": tag, "count": counts[tag]} if counts_only else None
            yield Piece(f"Tag: {tag:<30} Count: {counts[tag]}", row)


PRINT_MSG_BY_QUEUE = Command(
    "printMsgByQueue",
    run,
    [
        Option("t", "topic", "topic name", required=True),
        Option("a", "brokerName ", "broker name", required=True),
        Option("i", "queueId ", "queue id", required=True),
        CHARSET,
        EXPRESSION,
        Option("b", "beginTimestamp ", BEGIN_HELP),
        Option("e", "endTimestamp ", END_HELP),
        Option("p", "print msg", "print msg. eg: true | false(default)"),
        Option("d", "printBody ", "print body. eg: true | false(default)"),
        Option("f", "calculate", "calculate by tag. eg: true | false(default)"),
    ],
)

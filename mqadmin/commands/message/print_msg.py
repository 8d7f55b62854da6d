"""mqadmin printMsg: the messages of a topic, queue by queue."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mqadmin.command import Arguments, Command, Option
from mqadmin.message_text import MESSAGE_COLUMNS, charset_of, message_fields, message_line
from mqadmin.queue_reading import extent, pages, readable_queues
from mqadmin.report import Piece, Stream
from mqclient.admin import Admin
from mqcommon.message import MessageQueue

RULE = "-" * 56
BEGIN_HELP = "Begin timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"
END_HELP = "End timestamp[currentTimeMillis|yyyy-MM-dd#HH:mm:ss:SSS]"
CHARSET = Option("c", "charsetName ", "CharsetName(eg: UTF-8,GBK)")
EXPRESSION = Option("s", "subExpression ", "Subscribe Expression(eg: TagA || TagB)")


async def run(admin: Admin, arguments: Arguments) -> Stream:
    """Read every queue."""
    charset: str | None = charset_of(arguments)
    if arguments.text("printBody") is not None and not arguments.is_true("printBody"):
        charset = None
    queues = await readable_queues(admin, arguments.required("topic"))

    async def pieces() -> AsyncIterator[Piece]:
        for queue in queues:
            async for piece in _of_queue(admin, queue, arguments, charset):
                yield piece

    return Stream(pieces(), MESSAGE_COLUMNS)


async def _of_queue(
    admin: Admin, queue: MessageQueue, arguments: Arguments, charset: str | None
) -> AsyncIterator[Piece]:
    low, high = await extent(admin, queue, arguments)
    yield Piece(f"minOffset={low}, maxOffset={high}, {queue}")
    async for page in pages(admin, queue, low, high, tags=arguments.text("subExpression") or "*"):
        if page.status != "FOUND":
            words = "no matched msg" if page.status == "NO_MATCHED_MSG" else "print msg finished"
            yield Piece(f"{queue} {words}. status={page.status}, offset={page.next_offset}")
        for message in page.messages:
            yield Piece(message_line(message, charset), message_fields(message))
    yield Piece(RULE)


PRINT_MSG = Command(
    "printMsg",
    run,
    [
        Option("t", "topic", "topic name", required=True),
        CHARSET,
        EXPRESSION,
        Option("b", "beginTimestamp ", BEGIN_HELP),
        Option("e", "endTimestamp ", END_HELP),
        Option("d", "printBody ", "print body"),
    ],
)

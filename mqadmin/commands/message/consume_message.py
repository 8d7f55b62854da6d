"""mqadmin consumeMessage: print a number of messages of a topic or of a queue."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.commands.message.print_msg import BEGIN_HELP, END_HELP
from mqadmin.message_text import MESSAGE_COLUMNS, message_fields, message_line
from mqadmin.queue_reading import extent, queue_of, readable_queues
from mqadmin.report import Piece, Stream
from mqclient.admin import Admin
from mqcommon.message import MessageQueue

COUNT_DEFAULT = 128


async def run(admin: Admin, arguments: Arguments) -> Stream:
    """Read without a group's offsets: nothing counts as consumed."""
    count = arguments.number("MessageNumber", COUNT_DEFAULT)
    if count <= 0:
        raise UsageError("please input a positive messageNumber!")
    if arguments.text("queueId") is None:
        if arguments.text("offset") is not None:
            raise UsageError("please set queueId before offset!")
        return Stream(_of_topic(admin, arguments, count), MESSAGE_COLUMNS)
    if not arguments.text("brokerName"):
        raise UsageError("Please set the brokerName before queueId!")
    return Stream(_of_queue(admin, arguments, count), MESSAGE_COLUMNS)


async def _of_topic(admin: Admin, arguments: Arguments, count: int) -> AsyncIterator[Piece]:
    """The oldest messages of the first queues, until there are enough."""
    left = count
    for queue in await readable_queues(admin, arguments.required("topic")):
        if left <= 0:
            return
        low, high = await extent(admin, queue, arguments)
        if high - low > left:
            text = f"The older {left} message of the {queue.queue_id} queue will be provided"
            yield Piece(text)
            high, left = low + left - 1, 0
        else:
            left -= high - low + 1  # RocketMQ counts one message more in each queue
        async for piece in _pieces(admin, queue, low, high, arguments):
            yield piece


async def _of_queue(admin: Admin, arguments: Arguments, count: int) -> AsyncIterator[Piece]:
    queue = queue_of(arguments)
    offset = arguments.number("offset", 0)
    low, high = await extent(admin, queue, arguments)
    if offset > high:
        yield Piece(f"{queue} no matched msg, offset={offset}")
        return
    low = max(low, offset)
    if high - low > count:
        yield Piece(f"The oldler {count} message will be provided")
        high = low + count - 1
    async for piece in _pieces(admin, queue, low, high, arguments):
        yield piece


async def _pieces(
    admin: Admin, queue: MessageQueue, low: int, high: int, arguments: Arguments
) -> AsyncIterator[Piece]:
    """Messages from offset `low` to offset `high`, which may be the end of the queue."""
    group = arguments.text("consumerGroup")
    while low <= high:
        page = await admin.messages.read(queue, low, high - low + 1, group=group)
        state = f"status={page.status}, offset={page.next_offset}"
        if page.status == "FOUND":
            yield Piece("Consume ok")
        elif page.status == "NO_MATCHED_MSG":
            yield Piece(f"{queue} no matched msg. {state}")
        else:
            yield Piece(f"{queue} print msg finished. {state}")
            return
        for message in page.messages:
            yield Piece(message_line(message, "UTF-8"), message_fields(message))
        if page.next_offset <= low:
            return
        low = page.next_offset


CONSUME_MESSAGE = Command(
    "consumeMessage",
    run,
    [
        Option("t", "topic", "Topic name", required=True),
        Option("b", "brokerName", "Broker name"),
        Option("i", "queueId", "Queue Id"),
        Option("o", "offset", "Queue offset"),
        Option("g", "consumerGroup", "Consumer group name"),
        Option("s", "beginTimestamp ", BEGIN_HELP),
        Option("e", "endTimestamp ", END_HELP),
        Option("c", "MessageNumber", "Number of message to be consumed"),
    ],
)

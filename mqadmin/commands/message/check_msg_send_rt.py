"""mqadmin checkMsgSendRT: how long sends to a topic take, queue after queue."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Piece, Stream
from mqadmin.sending import average_text, padding, timed_send
from mqclient.admin import Admin
from mqcommon.cli.running import refusing_arguments
from mqcommon.message import Message

GROUP = "mqadmin_check_msg_send_rt"
AMOUNT_DEFAULT, SIZE_DEFAULT = 100, 128
COLUMNS = ("brokerName", "queueId", "success", "rt")


async def run(admin: Admin, arguments: Arguments) -> Stream:
    """Send messages to the queues in turn."""
    with refusing_arguments():
        topic, size = arguments.required("topic"), arguments.number("size", SIZE_DEFAULT)
        message = Message(topic, padding(size))
    return Stream(_pieces(admin, message, arguments.number("amount", AMOUNT_DEFAULT)), COLUMNS)


async def _pieces(admin: Admin, message: Message, amount: int) -> AsyncIterator[Piece]:
    yield Piece(_line("#Broker Name", "#QID", "#Send Result", "#RT"))
    total_ms = 0
    async with admin.producer(GROUP) as producer:
        queues = await producer.queues(message.topic)
        for number in range(amount):
            queue = queues[number % len(queues)]
            sent = await timed_send(producer, message, queue)
            if number > 0:  # the first send opens the connection
                total_ms += sent.duration_ms
            values = (queue.broker_name, queue.queue_id, sent.result is not None, sent.duration_ms)
            text = _line(*values[:2], str(values[2]).lower(), values[3])
            yield Piece(text, dict(zip(COLUMNS, values, strict=True)))
    yield Piece(f"Avg RT: {average_text(total_ms, amount - 1)}")


def _line(broker: str, queue: object, result: str, duration: object) -> str:
    return f"{broker:<32}  {queue!s:<4}  {result:<20}    {duration}"


CHECK_MSG_SEND_RT = Command(
    "checkMsgSendRT",
    run,
    [
        Option("t", "topic", "topic name", required=True),
        Option("a", "amount", "message amount | default 100"),
        Option("s", "size", "message size | default 128 Byte"),
    ],
)

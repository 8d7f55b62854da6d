"""mqadmin sendMsgStatus: send messages to a broker's own topic and show each answer."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Piece, Stream
from mqadmin.sending import SEND_COLUMNS, timed_send
from mqclient.admin import Admin
from mqclient.cli.send_row import send_row
from mqcommon.message import Message

GROUP = "PID_SMSC"
WORDS = b"hello jodie"
SIZE_DEFAULT, COUNT_DEFAULT = 128, 50
FIRST_SIZE = 16
"""Size of the first message, which opens the connection and is not shown."""


async def run(admin: Admin, arguments: Arguments) -> Stream:
    """Send the messages one after the other; the first failure ends the command."""
    broker = arguments.required("brokerName")
    size = arguments.number("messageSize", SIZE_DEFAULT)
    count = arguments.number("count", COUNT_DEFAULT)
    return Stream(_pieces(admin, broker, size, count), ("rt", *SEND_COLUMNS))


async def _pieces(admin: Admin, broker: str, size: int, count: int) -> AsyncIterator[Piece]:
    async with admin.producer(GROUP) as producer:
        await producer.send(_message(broker, FIRST_SIZE))
        for _ in range(count):
            sent = await timed_send(producer, _message(broker, size))
            if sent.result is None:
                assert sent.error is not None
                raise sent.error
            row = {"rt": sent.duration_ms, **send_row(sent.result)}
            yield Piece(f"rt={sent.duration_ms}ms, SendResult={sent.result}", row)


def _message(broker: str, size: int) -> Message:
    """A message to the topic that has the broker's name. Bodies are whole copies of WORDS."""
    return Message(broker, WORDS * -(-size // len(WORDS)))


SEND_MSG_STATUS = Command(
    "sendMsgStatus",
    run,
    [
        Option("b", "brokerName", "Broker Name", required=True),
        Option("s", "messageSize", "Message Size, Default: 128"),
        Option("c", "count", "send message count, Default: 50"),
    ],
)

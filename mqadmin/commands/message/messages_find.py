"""mqadmin messages find: search the messages of a topic."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mqadmin.command import Arguments, Command
from mqadmin.message_text import MESSAGE_COLUMNS, message_fields
from mqadmin.report import Piece, Stream
from mqadmin.searching import SEARCH_OPTIONS, Searching, search_of
from mqclient.admin import Admin, Problem, Search

WIDTHS = {
    "storeTimestamp": 23, "brokerName": 10, "queueId": 0, "queueOffset": 0, "tags": 12, "keys": 16,
    "body": 0,
}  # fmt: skip
"""The columns of the table, and their usual widths."""


async def run(admin: Admin, arguments: Arguments) -> Stream:
    """Print each message as soon as it is found."""
    return Stream(_pieces(await search_of(admin, arguments)), MESSAGE_COLUMNS, WIDTHS)


async def _pieces(search: Search) -> AsyncIterator[Piece]:
    searching = Searching(search)
    async for found in searching.found():
        for message in found.messages:
            row = message_fields(message)
            if "bodyError" in row:
                text = (
                    f"the body of the message at offset {message.queue_offset}: {row['bodyError']}"
                )
                searching.note(Problem(found.queue, 1, text))
            yield Piece(row=row)


MESSAGES_FIND = Command(
    "messages find",
    run,
    SEARCH_OPTIONS,
    description="Search a topic's messages by time, tag, key, text or JSON",
)

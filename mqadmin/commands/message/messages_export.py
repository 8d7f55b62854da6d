"""mqadmin messages export: print the messages of a topic, for `messages import`."""

from __future__ import annotations

from collections.abc import AsyncIterator

from mqadmin.command import Arguments, Command, UsageError
from mqadmin.report import Lines
from mqadmin.searching import SEARCH_OPTIONS, Searching, search_of
from mqclient.admin import Admin, Search


async def run(admin: Admin, arguments: Arguments) -> Lines:
    """Print a line of JSON for each message, in the order of each queue."""
    if arguments.text("output") not in (None, "jsonl"):
        raise UsageError("messages export writes lines of JSON only: leave out --output")
    # Every body has the empty text, so a body that does not decompress is a problem here already.
    return Lines(_blocks(await search_of(admin, arguments, body="")))


async def _blocks(search: Search) -> AsyncIterator[bytes]:
    async for found in Searching(search).found():
        if found.records:
            yield found.json_lines("base64")


MESSAGES_EXPORT = Command(
    "messages export",
    run,
    SEARCH_OPTIONS,
    description="Print a topic's messages as lines of JSON, for messages import",
)

"""Shared by the commands that search a topic: options, progress, and what could not be searched."""

from __future__ import annotations

import sys
from asyncio import CancelledError
from collections.abc import AsyncIterator

from mqadmin.command import Arguments, Option
from mqadmin.places import QUEUES, TOPIC, place_of, queues_of, time_of
from mqclient.admin import Admin, Found, Place, Problem, Search
from mqclient.errors import RocketMQError
from mqcommon.cli.running import refusing_arguments
from mqcommon.cli.status_line import StatusLine
from mqcommon.message import MessageQueue

__all__ = ["SEARCH_OPTIONS", "Searching", "search_of"]

SEARCH_OPTIONS = (
    TOPIC,
    Option("b", "begin", "Stored at this time or later: 2026-11-27T10:00:00, milliseconds, or -1h"),
    Option("e", "end", "Stored before this time"),
    Option("s", "tags", "With one of these tags: 'TagA || TagB'"),
    Option("k", "key", "With a key that this regular expression matches: '^order-1[0-9]$'"),
    Option("", "body", "With this text in the body"),
    Option(
        "", "json", "With a JSON body that JSONPath (RFC 9535) selects from: "
        "'$.items[?@.price > 100]', or for which a condition holds: '@.order == 17'",
    ),
    Option("g", "group", "Only messages that this group has not read"),
    QUEUES,
    Option("", "from", "Go on at this place: BROKER:ID:OFFSET"),
    Option("", "count", "At most this many messages; all without it"),
)  # fmt: skip
NOTES_MAX = 20
"""Most notes about messages that could not be searched."""


async def search_of(admin: Admin, arguments: Arguments, body: str | None = None) -> Search:
    """The search that the options ask for. body: a text in the body, if --body is not given."""
    topic = arguments.required("topic")
    begin, end = arguments.text("begin"), arguments.text("end")
    queues, start = queues_of(arguments), arguments.text("from")
    place = None if start is None else place_of(start)
    with refusing_arguments():
        return await admin.messages.find(
            topic,
            tags=arguments.text("tags") or "*",
            key=arguments.text("key"),
            body=arguments.text("body") or body,
            json=arguments.text("json"),
            begin=None if begin is None else time_of(begin),
            end=None if end is None else time_of(end),
            group=arguments.text("group"),
            queues=None if queues is None else [MessageQueue(topic, *queue) for queue in queues],
            start=place and Place(MessageQueue(topic, *place[:2]), place[2]),
            count=arguments.count("count"),
        )


class Searching:
    """One run of a search, with progress on a terminal and a note for each problem."""

    def __init__(self, search: Search) -> None:
        self._search = search
        self._line = StatusLine()
        self._problems = self._notes = 0

    async def found(self) -> AsyncIterator[Found]:
        """What each step found.

        A search that a signal or a failure ends says how to go on. Raises RocketMQError at the end
        if there were problems.
        """
        search, line = self._search, self._line
        try:
            async for found in search.steps():
                line.show(_state(search))
                for problem in found.problems:
                    self.note(problem)
                if found.records:
                    line.clear()
                yield found
        except (CancelledError, RocketMQError):
            self._say(f"stopped; {_state(search)}{_way_on(search)}")
            raise
        line.clear()
        if line.is_terminal:
            self._say(_state(search) + (_way_on(search) if search.searched < search.total else ""))
        if search.not_json:
            self._say(f"{search.not_json} bodies are not JSON, so --json left them out")
        if self._problems:
            raise RocketMQError(f"{self._problems} messages cannot be read, as the notes say")

    def note(self, problem: Problem) -> None:
        """Count messages that cannot be searched or read, and tell of the first ones."""
        self._notes += 1
        self._problems += problem.count
        if self._notes <= NOTES_MAX:
            queue = problem.queue
            self._say(f"{queue.broker_name}:{queue.queue_id}: {problem.text}")

    def _say(self, text: str) -> None:
        self._line.clear()
        print(f"note: {text}", file=sys.stderr)


def _state(search: Search) -> str:
    return f"{search.found:,} found in {search.searched:,} of {search.total:,} messages"


def _way_on(search: Search) -> str:
    """How to search the rest."""
    if search.place is None:
        return ""
    queue, offset = search.place
    return f"; to go on: --from {queue.broker_name}:{queue.queue_id}:{offset}"

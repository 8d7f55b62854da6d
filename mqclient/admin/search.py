"""A search through the messages of a topic: its results, and messages that it could not read."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from mqclient.engine.ranges import Conditions, RangeFailed, RangeReader, failure_of, json_lines
from mqclient.engine.threads import in_thread
from mqcommon.message import MessageQueue, ReceivedMessage, decode_messages

__all__ = ["Found", "Place", "Problem", "QueueRange", "Search"]

STEP_S = 0.1
"""Seconds after which a step returns even if it found nothing, for progress and for Ctrl-C."""
STEP_BYTES = 1 << 20
"""Bytes of found records after which a step returns."""
PROBLEMS_MAX = 1_000
"""Most problems that a search keeps."""


class Place(NamedTuple):
    """A place in a search: a queue, and the offset that is searched next."""

    queue: MessageQueue
    offset: int


class QueueRange(NamedTuple):
    """The offsets of a queue to search: from `first` on, before `end`."""

    queue: MessageQueue
    first: int
    end: int


@dataclass(frozen=True, slots=True)
class Problem:
    """Messages that could not be searched: damaged, gone, or with a body that does not decompress.

    count: their number, at most. text: the reason, with the first offset.
    """

    queue: MessageQueue
    count: int
    text: str


@dataclass(frozen=True, slots=True)
class Found:
    """The result of one step. records: whole records of the queue, as they are stored."""

    queue: MessageQueue
    records: bytes
    problems: tuple[Problem, ...]

    @property
    def messages(self) -> list[ReceivedMessage]:
        """The messages, in the order of the queue."""
        return decode_messages(self.records, self.queue.broker_name)

    def json_lines(self, body: str) -> bytes:
        """A line of JSON for each message, with RocketMQ's names, as `mqstore export` writes them.

        body: the form of bodies: text, hex, base64 or none.
        """
        return json_lines(self.records, body)


class Search:
    """Goes through the queues of a topic one after another, from `Admin.messages.find`.

        async with Admin("127.0.0.1:9876") as admin:
            async for message in await admin.messages.find("Orders", key="order-17"):
                print(message)

    A blocking program uses `for`. `close` ends a search early, as leaving the loop does.
    `async for found in search.steps()` gives the messages in groups. One task or thread at a time
    uses a search.

    total: number of offsets to search. searched, found: offsets searched and messages found so far.
    not_json: bodies so far that are not JSON, where a condition needs it. place: the next offset.
    problems: the first 1,000 problems so far; look at them after the loop.
    """

    def __init__(
        self,
        ranges: list[QueueRange],
        reader: RangeReader,
        conditions: Conditions,
        *,
        count: int | None,
        explain: Callable[[str, Exception], Exception],
        advertised: Mapping[str, str],
        problems: tuple[Problem, ...] = (),
    ) -> None:
        self._left = deque(ranges)
        self._reader, self._conditions = reader, conditions
        self._count = count
        self._explain, self._advertised = explain, advertised
        self.problems = list(problems)
        self.total = sum(end - first for _, first, end in ranges)
        self.searched = self.found = self.not_json = 0
        self.place = _start_of(self._left)

    def close(self) -> None:
        """Close the connections."""
        self._reader.close()

    async def steps(self) -> AsyncIterator[Found]:
        """What each step found, at least every 0.1 s.

        Raises UnreachableError, ClientTimeout or BrokerError when a broker fails for longer than
        the search tries again; a new search may start at `place`.
        """
        try:
            if self.problems:
                yield Found(self.problems[0].queue, b"", tuple(self.problems))
            while not self._is_done:
                yield self._taken(await in_thread(self._step))
        finally:
            self.close()

    async def __aiter__(self) -> AsyncIterator[ReceivedMessage]:
        async for found in self.steps():
            for message in found.messages:
                yield message

    def __iter__(self) -> Iterator[ReceivedMessage]:
        try:
            while not self._is_done:
                yield from self._taken(self._step()).messages
        finally:
            self.close()

    @property
    def _is_done(self) -> bool:
        return not self._left or self.found == self._count

    def _step(self) -> tuple[Any, ...]:
        """Search for a short time; nothing here changes, so that a cancelled step never was."""
        messages = 1 << 62 if self._count is None else self._count - self.found
        try:
            return self._reader.search(
                self._conditions, timeout=STEP_S, size_bytes=STEP_BYTES, messages=messages
            )
        except RangeFailed as failed:
            raise failure_of(failed, self._explain, self._advertised) from None

    def _taken(self, step: tuple[Any, ...]) -> Found:
        """Count the offsets and messages of a step."""
        is_end, records, messages, searched, next_offset, losses, not_json = step
        queue = self._left[0].queue
        self.searched += searched
        self.found += messages
        self.not_json += not_json
        if next_offset is not None:
            self.place = Place(queue, next_offset)
        problems = tuple(Problem(queue, n, text) for _, n, text in losses)
        self.problems += problems[: max(PROBLEMS_MAX - len(self.problems), 0)]
        if is_end:
            self._left.popleft()
            self.place = _start_of(self._left) or self.place
        return Found(queue, records, problems)


def _start_of(ranges: deque[QueueRange]) -> Place | None:
    return Place(ranges[0].queue, ranges[0].first) if ranges else None

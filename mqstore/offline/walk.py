"""Walking along the log: the records that are wanted, past damage, to the end and beyond it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

if TYPE_CHECKING:
    from mqstore.message import ReceivedMessage

__all__ = ["Ahead", "AheadWalk", "Chunk", "Gap", "LogWalk", "Scanner", "Walk", "Wanted", "follow"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

CHUNK_BYTES = 1 << 20
"""How much of the log one read takes."""
POLL_MIN_S, POLL_MAX_S = 0.01, 0.2
"""A live store tells nobody that it grew: how long to wait before looking again."""
SETTLE_S = 1.0
"""A record that is unreadable for so long in a live store is no record under way."""


class Chunk(NamedTuple):
    """A stretch of the log."""

    body: bytes
    """Whole records one after another."""
    offsets: list[int]
    """Where each starts, bytes from the start of the log."""
    next_offset: int
    """Where the next stretch begins."""


class Gap(NamedTuple):
    """A range of the log that holds no readable record, with good records behind it."""

    start: int
    """First byte."""
    end: int
    """Where records go on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which records to give; None: all of them."""

    stop: int | None = None
    """Not those that start at this physical offset or behind it."""
    topic: str | None = None
    """Only this topic."""
    queue_id: int | None = None
    """Only this queue id."""
    tag: str | None = None
    """Only with this tag."""
    begin_ms: int | None = None
    """Only stored then or later, milliseconds since the epoch."""
    end_ms: int | None = None
    """Only stored then or earlier."""
    check_crc: bool = False
    """Leave out records whose body does not match its checksum."""

    def passes(self, message: ReceivedMessage) -> bool:
        """Whether a message is wanted; its checksum is not looked at."""
        at, time_ms = message.commit_log_offset, message.store_timestamp_ms
        return (
            (self.topic is None or message.topic == self.topic)
            and (self.queue_id is None or message.queue_id == self.queue_id)
            and (self.tag is None or message.tags == self.tag)
            and (self.stop is None or at < self.stop)
            and (self.begin_ms is None or time_ms >= self.begin_ms)
            and (self.end_ms is None or time_ms <= self.end_ms)
        )


class Scanner(Protocol):
    """What a walk needs of the compiled scanner."""

    def select(
        self,
        offset: int,
        max_bytes: int,
        *,
        stop: int | None = None,
        topic: str | None = None,
        queue_id: int | None = None,
        tag: str | None = None,
        begin_ms: int | None = None,
        end_ms: int | None = None,
        check_crc: bool = False,
    ) -> tuple[bytes, int, int, str]:
        """The next records that pass, how many, where to go on, and why it ended there."""

    def next_record_after(self, offset: int) -> int | None:
        """Where records go on behind damage, or None."""


class Ahead(Protocol[T_co]):
    """Native work that goes through the log by itself, some steps ahead."""

    def step(self) -> tuple[T_co, int, str]:
        """What was made, where it goes on, and why it ended there."""


class Walk(Generic[T]):
    """What is wanted of the log in the order it was written, and where the walk has come to.

    start: physical offset of a record. on_gap: told of each range that holds no readable
    record and lies before others that do. A subclass says what a step gives.
    """

    def __init__(
        self, scan: Scanner, start: int, wanted: Wanted, on_gap: Callable[[Gap], None]
    ) -> None:
        self.scan = scan
        self.offset = start
        """Where it goes on, bytes from the start of the log."""
        self._wanted = wanted
        self._on_gap = on_gap

    def step(self) -> tuple[T, str]:
        """What comes next, perhaps nothing, and why there is no more of it.

        "more": go on. "stop": nothing beyond can be wanted. "unreadable": no record starts at
        `offset`; `skip` goes on behind it.
        """
        raise NotImplementedError

    def skip(self) -> bool:
        """Go behind what is unreadable; False when no record follows."""
        after = self.scan.next_record_after(self.offset)
        if after is None or (self._wanted.stop is not None and after >= self._wanted.stop):
            return False
        # A live log grows in order: what was being written is whole once a record follows it.
        crc = self._wanted.check_crc
        if self.scan.select(self.offset, 1, check_crc=crc)[2] > self.offset:
            return True
        self._on_gap(Gap(self.offset, after))
        self.offset = after
        return True

    def __iter__(self) -> Iterator[T]:
        """What the steps give, to the log's end."""
        while True:
            found, why = self.step()
            if found:
                yield found
            if why == "stop" or (why == "unreadable" and not self.skip()):
                return


class LogWalk(Walk[bytes]):
    """Whole records one after another, about a mebibyte at a time."""

    def __init__(
        self, scan: Scanner, start: int, wanted: Wanted, on_gap: Callable[[Gap], None]
    ) -> None:
        super().__init__(scan, start, wanted, on_gap)
        self._fields = {f.name: getattr(wanted, f.name) for f in dataclasses.fields(wanted)}
        self._stopped = False

    def step(self) -> tuple[bytes, str]:
        """The next records, perhaps none, and why there are no more of them: see Walk."""
        if self._stopped:
            return b"", "stop"
        body, _, self.offset, why = self.scan.select(self.offset, CHUNK_BYTES, **self._fields)
        self._stopped = why == "stop"
        return body, why


class AheadWalk(Walk[T]):
    """What native work makes of the records, in threads that run ahead.

    begin: starts the work at a physical offset.
    """

    def __init__(self, *words: Any, begin: Callable[[int], Ahead[T]]) -> None:
        super().__init__(*words)
        self._begin = begin
        self._ahead: Ahead[T] | None = None

    def step(self) -> tuple[T, str]:
        """The next result, and why there are no more: see Walk."""
        if self._ahead is None:
            self._ahead = self._begin(self.offset)
        made, self.offset, why = self._ahead.step()
        if why != "more":
            self._ahead = None
        return made, why


def follow(walk: LogWalk, commit_log: Path, reopen: Callable[[], Scanner]) -> Iterator[bytes]:
    """The walk, and at the end of the log what a broker appends meanwhile; does not end itself.

    commit_log: its directory; `reopen` is called when a file appeared there. Yields b"" each
    time it has waited, so that its user can show what it has, or stop.
    """
    wait_s, settle_s, quiet_since = POLL_MIN_S, SETTLE_S, time.monotonic()
    files = _version(commit_log)
    while True:
        body, why = walk.step()
        if body:
            yield body
        if why == "stop":
            return
        if body or why == "more":
            wait_s, settle_s, quiet_since = POLL_MIN_S, SETTLE_S, time.monotonic()
            continue
        if (version := _version(commit_log)) != files:
            walk.scan, files = reopen(), version
            continue
        if time.monotonic() - quiet_since > settle_s:
            settle_s *= 4  # it reads all that is left of the file
            if walk.skip():
                continue
        yield b""
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, POLL_MAX_S)


def _version(directory: Path) -> int:
    return directory.stat().st_mtime_ns

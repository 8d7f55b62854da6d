"""Walks along the log: selects records, skips damage, and follows a growing log."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

from mqcommon.names import tag_names

if TYPE_CHECKING:
    from mqcommon.message import ReceivedMessage

__all__ = ["Ahead", "AheadWalk", "Chunk", "Gap", "LogWalk", "Scanner", "Walk", "Wanted", "follow"]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

CHUNK_BYTES = 1 << 20
"""Bytes of the log that one read takes."""
POLL_MIN_S, POLL_MAX_S = 0.01, 0.2
"""Seconds between two checks of a live store for new records."""
SETTLE_S = 1.0
"""Seconds after which an unreadable record of a live store counts as damage, not as a write."""


class Chunk(NamedTuple):
    """A part of the log."""

    body: bytes
    """Whole records one after another."""
    offsets: list[int]
    """Physical offset of each record."""
    next_offset: int
    """Physical offset of the next chunk."""


class Gap(NamedTuple):
    """A range of the log without a readable record, before good records."""

    start: int
    """First byte."""
    end: int
    """Physical offset of the next good record."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which records to select. None in a field selects all."""

    stop: int | None = None
    """Only records that start before this physical offset."""
    topic: str | None = None
    """Only this topic."""
    queue_id: int | None = None
    """Only this queue id."""
    tag: str | None = None
    """Only messages with this tag, or with one of several: "TagA || TagB"."""
    begin_ms: int | None = None
    """Only messages stored at this time or later, milliseconds since the epoch."""
    end_ms: int | None = None
    """Only messages stored at this time or earlier."""
    check_crc: bool = False
    """Skip records whose body does not match its checksum."""

    def passes(self, message: ReceivedMessage) -> bool:
        """Whether a message is selected; its checksum is not checked."""
        at, time_ms = message.commit_log_offset, message.store_timestamp_ms
        return (
            (self.topic is None or message.topic == self.topic)
            and (self.queue_id is None or message.queue_id == self.queue_id)
            and (self.tag is None or message.tags in (tag_names(self.tag) or ()))
            and (self.stop is None or at < self.stop)
            and (self.begin_ms is None or time_ms >= self.begin_ms)
            and (self.end_ms is None or time_ms <= self.end_ms)
        )


class Scanner(Protocol):
    """The methods of the compiled scanner that a walk uses."""

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
        """The next selected records, their number, where to continue, and why the scan ended."""

    def next_record_after(self, offset: int) -> int | None:
        """Start of the first good record after damage, or None."""


class Ahead(Protocol[T_co]):
    """Native work that reads the log a few steps ahead."""

    def step(self) -> tuple[T_co, int, str]:
        """The result, the offset of the next step, and the reason for the end."""


class Walk(Generic[T]):
    """Selects records in the order of the log, and keeps its position.

    start: physical offset of a record. on_gap: called with each range without a readable record
    that is followed by good records. A subclass defines the result of a step.
    """

    def __init__(
        self, scan: Scanner, start: int, wanted: Wanted, on_gap: Callable[[Gap], None]
    ) -> None:
        self.scan = scan
        self.offset = start
        """Physical offset at which the walk continues."""
        self._wanted = wanted
        self._on_gap = on_gap

    def step(self) -> tuple[T, str]:
        """The next result, which may be empty, and the reason why it ends.

        "more": continue. "stop": no later record can match. "unreadable": no record starts at
        `offset`; `skip` moves past it.
        """
        raise NotImplementedError

    def skip(self) -> bool:
        """Move past unreadable bytes; False if no record follows."""
        after = self.scan.next_record_after(self.offset)
        if after is None or (self._wanted.stop is not None and after >= self._wanted.stop):
            return False
        # A live log grows in order: a record is complete once another record follows it.
        crc = self._wanted.check_crc
        if self.scan.select(self.offset, 1, check_crc=crc)[2] > self.offset:
            return True
        self._on_gap(Gap(self.offset, after))
        self.offset = after
        return True

    def __iter__(self) -> Iterator[T]:
        """The results of all steps, to the log's end."""
        while True:
            found, why = self.step()
            if found:
                yield found
            if why == "stop" or (why == "unreadable" and not self.skip()):
                return


class LogWalk(Walk[bytes]):
    """Consecutive records, about a mebibyte at a time."""

    def __init__(
        self, scan: Scanner, start: int, wanted: Wanted, on_gap: Callable[[Gap], None]
    ) -> None:
        super().__init__(scan, start, wanted, on_gap)
        self._fields = {f.name: getattr(wanted, f.name) for f in dataclasses.fields(wanted)}
        self._stopped = False

    def step(self) -> tuple[bytes, str]:
        """The next records, perhaps none, and the reason why they end; see Walk."""
        if self._stopped:
            return b"", "stop"
        body, _, self.offset, why = self.scan.select(self.offset, CHUNK_BYTES, **self._fields)
        self._stopped = why == "stop"
        return body, why


class AheadWalk(Walk[T]):
    """Results of native threads that read ahead.

    begin: starts the work at a physical offset.
    """

    def __init__(self, *words: Any, begin: Callable[[int], Ahead[T]]) -> None:
        super().__init__(*words)
        self._begin = begin
        self._ahead: Ahead[T] | None = None

    def step(self) -> tuple[T, str]:
        """The next result, and the reason why it ends; see Walk."""
        if self._ahead is None:
            self._ahead = self._begin(self.offset)
        made, self.offset, why = self._ahead.step()
        if why != "more":
            self._ahead = None
        return made, why


def follow(walk: LogWalk, commit_log: Path, reopen: Callable[[], Scanner]) -> Iterator[bytes]:
    """The records of a walk, and then the records that a broker appends; never ends by itself.

    commit_log: its directory; `reopen` is called when a new file appears there. Yields b"" each
    time it has waited, so that the caller can show results or stop.
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
            settle_s *= 4  # `skip` reads the whole rest of the file
            if walk.skip():
                continue
        yield b""
        time.sleep(wait_s)
        wait_s = min(2 * wait_s, POLL_MAX_S)


def _version(directory: Path) -> int:
    return directory.stat().st_mtime_ns

"""Messages of a store to one file: JSON lines, CSV or Parquet."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from mqcommon.export_formats import format_of
from mqcommon.message import DecodeError, ReceivedMessage, decode_messages
from mqcommon.names import (
    AUTO_CREATE_TOPIC,
    CHECK_MAX_TIME_TOPIC,
    INNER_PREFIX,
    OFFSET_MOVED_TOPIC,
    RETRY_PREFIX,
    SCHEDULE_TOPIC,
)
from mqstore.offline import state
from mqstore.offline.formats import Writer, whole_file, writer_of
from mqstore.offline.reader import StoreReader
from mqstore.offline.walk import Gap, Wanted

__all__ = ["ExportReport", "export"]

_PREPARED, _ROLLBACK, _TRANSACTION_TYPE = 0x4, 0xC, 0xC
_COMPRESSED = 0x1
_OWN_PREFIXES = (INNER_PREFIX, RETRY_PREFIX)
_OWN_TOPICS = frozenset({OFFSET_MOVED_TOPIC, AUTO_CREATE_TOPIC, CHECK_MAX_TIME_TOPIC})


@dataclass(slots=True)
class ExportReport:
    """Counts of an export: messages written and left out."""

    path: Path
    """The file."""
    format: str
    """Its format, see `mqstore.offline.formats`."""
    messages: int = 0
    """Messages in it."""
    kept_back: int = 0
    """Records of RocketMQ itself that were left out."""
    gaps: list[Gap] = field(default_factory=list)
    """Ranges without a readable record, or with a body that does not match its CRC; left out."""
    undecodable: list[int] = field(default_factory=list)
    """Physical offsets of messages that were left out because the body does not decompress."""

    @property
    def damaged(self) -> bool:
        """Whether messages may be missing."""
        return bool(self.gaps or self.undecodable)


def export(
    reader: StoreReader,
    to: str | os.PathLike[str],
    wanted: Wanted | None = None,
    *,
    start: int | None = None,
    count: int | None = None,
    format: str | None = None,
    everything: bool = False,
    replace: bool = False,
    progress: Callable[[str, int, int], None] | None = None,
) -> ExportReport:
    """Write the selected messages to a file, in the order of the log.

    to: its name implies the format, unless `format` is given. start: physical offset of a record.
    count: most messages. everything: also records of RocketMQ itself: copies for retries,
    half messages and their ends, delayed messages that were delivered, records of rolled-back
    transactions; a topic that `wanted` names is always written. replace: an existing file.
    progress: called with "export", bytes read and bytes in total.
    The file gets its name when it is complete. Damage is left out and reported.
    Raises ValueError for a name without a format, FileExistsError, ImportError.
    """
    path = Path(to)
    wanted = wanted or Wanted()
    report = ExportReport(path, format_of(path, format))
    with whole_file(path, replace) as file:
        writer = writer_of(report.format, file)
        try:
            _Export(reader, wanted, everything, report, writer).run(start, count, progress)
        finally:
            writer.finish()
    return report


class _Export:
    """A running export."""

    def __init__(
        self,
        reader: StoreReader,
        wanted: Wanted,
        everything: bool,
        report: ExportReport,
        writer: Writer,
    ) -> None:
        self._reader, self._report, self._writer = reader, report, writer
        self._wanted = dataclasses.replace(wanted, check_crc=True)
        self._everything = everything
        self._delivered = {} if everything else state.delay_offsets(reader.path)

    def run(
        self,
        start: int | None,
        count: int | None,
        progress: Callable[[str, int, int], None] | None,
    ) -> None:
        """Write the selected messages; stop at `count`."""
        left = count
        begin, end = self._reader.min_physical_offset, self._reader.max_physical_offset
        walk = self._reader.walk(start, self._wanted, self._report.gaps.append)
        for body in walk if left != 0 else ():
            chosen, taken = self._choose(body, left)
            if taken:
                self._writer.add(chosen)
                self._report.messages += taken
            if progress is not None:
                progress("export", walk.offset - begin, end - begin)
            if left is not None and (left := left - taken) == 0:
                return

    def _choose(self, body: bytes, limit: int | None) -> tuple[bytes, int]:
        """The records of a chunk that are written, and their number."""
        pieces: list[bytes] = []
        at = 0
        for message in decode_messages(body):
            if len(pieces) == limit:
                break
            end = at + message.store_size
            if self._is_written(message):
                pieces.append(body[at:end])
            at = end
        return b"".join(pieces), len(pieces)

    def _is_written(self, message: ReceivedMessage) -> bool:
        if not self._everything and self._is_kept_back(message):
            self._report.kept_back += 1
            return False
        if message.sys_flag & _COMPRESSED:
            try:
                message.body  # noqa: B018  # decompresses
            except DecodeError:
                self._report.undecodable.append(message.commit_log_offset)
                return False
        return True

    def _is_kept_back(self, message: ReceivedMessage) -> bool:
        """Whether a record belongs to RocketMQ itself: no consumer would receive it any more."""
        if message.sys_flag & _TRANSACTION_TYPE in (_PREPARED, _ROLLBACK):
            return True
        topic = message.topic
        if topic == self._wanted.topic:
            return False
        if topic == SCHEDULE_TOPIC:
            pending = message.queue_offset >= self._delivered.get(message.queue_id + 1, 0)
            return not pending or _is_own(message.properties.get("REAL_TOPIC", ""))
        return _is_own(topic)


def _is_own(topic: str) -> bool:
    return topic in _OWN_TOPICS or topic.startswith(_OWN_PREFIXES)

"""JSON lines and Arrow columns that native threads prepare ahead of the reader."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

from mqcommon import _core
from mqstore.offline.walk import AheadWalk, Gap, Wanted

__all__ = ["LinesWalk", "Rows", "columns", "json_lines", "lines"]

LINES_BYTES = 256 << 10
"""Bytes of the log that are rendered as JSON lines in one step; the lines fit the CPU cache."""
COLUMNS_BYTES = 2 << 20
"""Bytes of the log that are turned into columns in one step."""

Rows = tuple[int, dict[str, tuple[Any, ...]]]
"""Number of rows, and their columns as returned by `ColumnBuilder.take`."""


class LinesWalk(AheadWalk[_core.Memory]):
    """The records as JSON lines."""

    _begin: Callable[[int], _core.LinesAhead]

    def write(self, descriptor: int) -> None:
        """Write all lines to an open file, in native code; the walk must not have begun."""
        while True:
            self.offset, why = self._begin(self.offset).write(descriptor)
            if why == "stop" or not self.skip():
                return


def lines(
    scan: _core.Scan, start: int, wanted: Wanted, on_gap: Callable[[Gap], None], body: str
) -> LinesWalk:
    """The records as JSON lines; for the first four arguments see Walk."""

    def begin(at: int) -> _core.LinesAhead:
        return _core.LinesAhead(scan, at, LINES_BYTES, wanted, body)

    return LinesWalk(scan, start, wanted, on_gap, begin=begin)


def columns(
    scan: _core.Scan,
    start: int,
    wanted: Wanted,
    on_gap: Callable[[Gap], None],
    names: Sequence[str],
    queue_ids: Set[int] | None,
    tags: Set[str] | None,
) -> AheadWalk[Rows]:
    """The records as column buffers; for the first four arguments see Walk."""

    def begin(at: int) -> _core.ColumnsAhead:
        return _core.ColumnsAhead(
            scan, at, COLUMNS_BYTES, wanted, names, queue_ids=queue_ids, tags=tags
        )

    return AheadWalk(scan, start, wanted, on_gap, begin=begin)


def json_lines(records: bytes, body: str = "text") -> bytes:
    """Whole records as JSON lines with RocketMQ's names, in the format of `mqstore dump`.

    body: how to write bodies: "text", "hex", "base64" or "none".
    """
    return _core.json_lines(records, body)

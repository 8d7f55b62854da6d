"""JSON lines and Arrow columns that native threads make ahead of the reader."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any

from mqstore import _core
from mqstore.offline.walk import AheadWalk, Gap, Wanted

__all__ = ["LinesWalk", "Rows", "columns", "json_lines", "lines"]

LINES_BYTES = 256 << 10
"""Bytes of the log that become JSON lines at once; the lines fit the CPU cache."""
COLUMNS_BYTES = 2 << 20
"""Bytes of the log that become columns at once."""

Rows = tuple[int, dict[str, tuple[Any, ...]]]
"""Number of rows, and their columns as `ColumnBuilder.take` gives them."""


class LinesWalk(AheadWalk[_core.Memory]):
    """The records as JSON lines."""

    _begin: Callable[[int], _core.LinesAhead]

    def write(self, descriptor: int) -> None:
        """Write all lines of a walk that has not begun to an open file, in native code."""
        while True:
            self.offset, why = self._begin(self.offset).write(descriptor)
            if why == "stop" or not self.skip():
                return


def lines(
    scan: _core.Scan, start: int, wanted: Wanted, on_gap: Callable[[Gap], None], body: str
) -> LinesWalk:
    """The records as JSON lines; the first four arguments are those of a Walk."""

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
    """The records as column buffers; the first four arguments are those of a Walk."""

    def begin(at: int) -> _core.ColumnsAhead:
        return _core.ColumnsAhead(
            scan, at, COLUMNS_BYTES, wanted, names, queue_ids=queue_ids, tags=tags
        )

    return AheadWalk(scan, start, wanted, on_gap, begin=begin)


def json_lines(records: bytes, body: str = "text") -> bytes:
    """Whole records as JSON lines with RocketMQ's names, as `mqstore dump` writes them.

    body: how to write bodies: "text", "hex", "base64" or "none".
    """
    return _core.json_lines(records, body)

"""Bounds the bytes of large replies while they are built.

RocketMQ builds them whole and lets the frame decide. Here a list has the rows that fit, and a table
that is of no use in part, such as the one a slave copies, is refused before it is built.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from mqserver.broker.remarks import system_error

Row = TypeVar("Row")

REPLY_BYTES_MAX = 8 << 20
"""Most bytes of a reply's rows, by estimate."""
WHOLE_BYTES_MAX = 16 << 20
"""Bytes that no frame takes."""
QUEUE_ROW_BYTES = 200
"""Estimate of a row about a queue, without its topic's name."""
CLIENT_ROW_BYTES = 200
"""Estimate of a row about a client, without its names."""


class ReplySize:
    """The bytes of one reply. limit: bytes; is_full: whether rows were left out."""

    def __init__(self, limit: int = REPLY_BYTES_MAX) -> None:
        self._left = limit
        self.is_full = False

    def takes(self, row_bytes: int) -> bool:
        """Count a row; False if there is no room for it, and from then on."""
        self._left -= row_bytes
        self.is_full = self.is_full or self._left < 0
        return not self.is_full

    def fitting(self, rows: Iterable[Row], row_bytes: Callable[[Row], int]) -> Iterator[Row]:
        """The rows from the first on that fit."""
        for row in rows:
            if not self.takes(row_bytes(row)):
                return
            yield row

    def remark(self, usual: str | None = None) -> str | None:
        """The reply's remark: `usual`, or that rows are missing."""
        if not self.is_full:
            return usual
        return f"the reply has only the rows that fit in {REPLY_BYTES_MAX} bytes"


def check_whole(least_bytes: int, what: str) -> None:
    """Raises Refused if a table that has at least `least_bytes` fits no reply."""
    if least_bytes > WHOLE_BYTES_MAX:
        raise system_error(f"{what} take more than {WHOLE_BYTES_MAX} bytes, which fit no reply")


def queue_bytes(topic: str) -> Callable[[int], int]:
    """The estimate for each queue of a topic."""
    size = QUEUE_ROW_BYTES + len(topic)
    return lambda _queue_id: size

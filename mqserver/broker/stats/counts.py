"""Two columns of numbers, of which copies share what has not changed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

_CHUNK = 1_024
"""Numbers that are copied, or shared, together."""


class Counts:
    """A value and a number of times for each row, from row 0.

    A broker keeps up to 39 copies of tens of thousands of rows (`items.Window`), of which few
    change between two of them.
    """

    __slots__ = ("_chunks", "_rows")

    def __init__(self) -> None:
        self._chunks: list[array[int]] = []
        self._rows = 0

    def __len__(self) -> int:
        """Rows."""
        return self._rows

    def append(self, value: int, times: int) -> None:
        """Begin a row."""
        if self._rows * 2 % _CHUNK == 0:
            self._chunks.append(array("q"))
        self._chunks[-1].extend((value, times))
        self._rows += 1

    def add(self, row: int, value: int, times: int) -> None:
        """Add to a row."""
        chunk, place = divmod(row * 2, _CHUNK)
        numbers = self._chunks[chunk]
        numbers[place] += value
        numbers[place + 1] += times

    def of(self, row: int) -> tuple[int, int]:
        """A row's value and times."""
        chunk, place = divmod(row * 2, _CHUNK)
        numbers = self._chunks[chunk]
        return numbers[place], numbers[place + 1]

    def copy(self, like: Counts) -> Counts:
        """A copy that shares with `like`, which must not change any more, what is equal."""
        copied, known = Counts(), like._chunks
        copied._rows = self._rows
        for place, numbers in enumerate(self._chunks):
            is_same = place < len(known) and known[place] == numbers
            copied._chunks.append(known[place] if is_same else numbers[:])
        return copied

    def picked(self, rows: Iterable[int]) -> Counts:
        """Those of `rows` that are there, in their order."""
        found = Counts()
        for row in rows:
            if row < self._rows:
                found.append(*self.of(row))
        return found

    def grown_since(self, base: Counts) -> Iterator[int]:
        """Rows whose value is not that of `base`, a row that is not there counts as 0."""
        known = base._chunks
        for chunk, numbers in enumerate(self._chunks):
            before = known[chunk] if chunk < len(known) else array("q")
            if before is numbers:
                continue
            first = chunk * _CHUNK // 2
            for place in range(0, len(numbers), 2):
                value = before[place] if place < len(before) else 0
                if numbers[place] != value:
                    yield first + place // 2

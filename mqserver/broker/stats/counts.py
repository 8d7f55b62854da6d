"""Two columns of numbers, whose copies share the chunks that have not changed."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator

_CHUNK = 1_024
"""Numbers per chunk; copies share a chunk or copy it as a whole."""


class Counts:
    """A value and a number of times for each row, from row 0.

    A broker keeps up to 39 copies of tens of thousands of rows (`items.Window`), and few rows
    change between two copies.
    """

    __slots__ = ("_chunks", "_rows")

    def __init__(self) -> None:
        self._chunks: list[array[int]] = []
        self._rows = 0

    def __len__(self) -> int:
        """The number of rows."""
        return self._rows

    def append(self, value: int, times: int) -> None:
        """Add a row at the end."""
        if self._rows * 2 % _CHUNK == 0:
            self._chunks.append(array("q"))
        self._chunks[-1].extend((value, times))
        self._rows += 1

    def add(self, row: int, value: int, times: int) -> None:
        """Add to the value and times of a row."""
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
        """A copy that shares equal chunks with `like`, which must not change any more."""
        copied, known = Counts(), like._chunks
        copied._rows = self._rows
        for place, numbers in enumerate(self._chunks):
            is_same = place < len(known) and known[place] == numbers
            copied._chunks.append(known[place] if is_same else numbers[:])
        return copied

    def picked(self, rows: Iterable[int]) -> Counts:
        """A copy of the existing rows among `rows`, in the given order."""
        found = Counts()
        for row in rows:
            if row < self._rows:
                found.append(*self.of(row))
        return found

    def grown_since(self, base: Counts) -> Iterator[int]:
        """Rows whose value differs from `base`; a row that `base` lacks counts as 0 there."""
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

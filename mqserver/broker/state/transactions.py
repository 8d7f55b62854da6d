"""Which half messages are copies of which, while their transactions are open."""

from __future__ import annotations

import threading


class Copies:
    """The copies that checks made of half messages, by queue offset.

    A transaction's number is the queue offset of its first half message. A transaction without a
    copy has no entry. Methods may be called from any thread.

    loading: held while the copies are read from the store, which is done once.
    """

    def __init__(self) -> None:
        self.loading = threading.Lock()
        self.is_loaded = False
        self.set_aside = 0
        """Half messages that could not be checked."""
        self._lock = threading.Lock()
        self._numbers: dict[int, int] = {}
        self._copies: dict[int, list[int]] = {}
        self._questions: dict[int, int] = {}

    def add(self, number: int, offset: int) -> None:
        """Note a copy at a queue offset."""
        with self._lock:
            copies = self._copies.setdefault(number, [])
            if offset not in copies:
                copies.append(offset)
            self._numbers[offset] = number

    def number(self, offset: int) -> int:
        """The number of the transaction that has a half message at a queue offset."""
        return self._numbers.get(offset, offset)

    def newest(self, number: int) -> int | None:
        """The queue offset of the newest copy, None if the transaction has no copy."""
        copies = self._copies.get(number)
        return max(copies) if copies else None

    def is_open(self, offset: int) -> bool:
        """Whether the half message at a queue offset has a copy that the checks will reach."""
        return self.number(offset) in self._copies

    def note_question(self, number: int) -> int:
        """Count a question to the producer; returns the questions since the broker's start."""
        with self._lock:
            count = self._questions.get(number, 0) + 1
            if number in self._copies:
                self._questions[number] = count
            return count

    def forget(self, number: int) -> None:
        """Forget a transaction whose newest half message is done with."""
        with self._lock:
            self._questions.pop(number, None)
            for offset in self._copies.pop(number, ()):
                self._numbers.pop(offset, None)

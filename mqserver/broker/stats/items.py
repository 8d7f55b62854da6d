"""Counters by name and key, and their sums over the last minute, hour and day.

As RocketMQ's StatsItem: a minute is 7 samples taken every 10 s, an hour 7 every 10 minutes, a day
25 every hour, and a sum is the last sample less the first. An item that appeared between two
samples counts as 0 one period before its first one. Times are monotonic.
"""

from __future__ import annotations

import threading
from array import array
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from mqclient.wire.bodies.groups import BrokerStatsData, BrokerStatsItem

MINUTE, HOUR, DAY = (10_000, 7), (600_000, 7), (3_600_000, 25)
"""Milliseconds between two samples, and samples kept."""
_DEAD_ROWS_MAX = 1_000


class _Sample(NamedTuple):
    """All items at one moment; those with a higher row did not exist yet."""

    at_ms: int
    values: array[int]
    times: array[int]


class Window:
    """The last samples of all items."""

    def __init__(self, period_ms: int, kept: int) -> None:
        self._period_ms = period_ms
        self._samples: deque[_Sample] = deque(maxlen=kept)
        self._due_ms: int | None = None

    def take(self, now_ms: int, values: array[int], times: array[int]) -> None:
        """Keep the items as they are, if it is time."""
        due_ms = now_ms if self._due_ms is None else self._due_ms
        if now_ms < due_ms:
            return
        self._samples.append(_Sample(now_ms, values[:], times[:]))
        self._due_ms = due_ms + ((now_ms - due_ms) // self._period_ms + 1) * self._period_ms

    def of(self, row: int) -> BrokerStatsItem:
        """What an item was over these samples."""
        samples = [sample for sample in self._samples if row < len(sample.values)]
        if not samples:
            return BrokerStatsItem()
        first, last = samples[0], samples[-1]
        begin_ms, value, times = first.at_ms - self._period_ms, 0, 0
        if len(samples) == self._samples.maxlen:
            begin_ms, value, times = first.at_ms, first.values[row], first.times[row]
        total, count = last.values[row] - value, last.times[row] - times
        per_second = total * 1000.0 / max(1, last.at_ms - begin_ms)
        return BrokerStatsItem(total, per_second, total / count if count > 0 else 0.0)

    def moved(self) -> set[int]:
        """The rows whose sum, as `of` has it, is not 0."""
        if not self._samples:
            return set()
        last = self._samples[-1].values
        base = self._samples[0].values if len(self._samples) == self._samples.maxlen else array("q")
        new = range(len(base), len(last))
        grown = {row for row, value in enumerate(base) if last[row] != value}
        return grown.union(row for row in new if last[row])

    def keep(self, rows: list[int]) -> None:
        """Renumber: row `rows[i]` becomes row i."""
        for _ in range(len(self._samples)):
            at_ms, values, times = self._samples.popleft()
            there = [row for row in rows if row < len(values)]
            self._samples.append(_Sample(at_ms, _picked(values, there), _picked(times, there)))


class Items:
    """The table of items. Methods may be called from any thread.

    now_ms: monotonic.
    """

    def __init__(self, now_ms: Callable[[], int]) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._rows: dict[tuple[str, str], int] = {}
        self._values = array("q")
        self._times = array("q")
        self._minute, self._hour, self._day = Window(*MINUTE), Window(*HOUR), Window(*DAY)
        self._moments: dict[tuple[str, str], int] = {}

    def add(self, name: str, key: str, value: int, times: int = 1) -> None:
        """Count `value` in `times` requests; the first time makes the item."""
        with self._lock:
            row = self._rows.setdefault((name, key), len(self._values))
            if row == len(self._values):
                self._values.append(value)
                self._times.append(times)
            else:
                self._values[row] += value
                self._times[row] += times

    def set(self, name: str, key: str, value: int) -> None:
        """Note a moment: only its last value counts, and it is no item."""
        with self._lock:
            self._moments[name, key] = value

    def moments(self, name: str) -> dict[str, int]:
        """The moments of a name, by key."""
        with self._lock:
            return {key: value for (known, key), value in self._moments.items() if known == name}

    def sample(self) -> None:
        """Take the samples that are due; call it every 10 s."""
        with self._lock:
            now_ms = self._now_ms()
            for window in (self._minute, self._hour, self._day):
                window.take(now_ms, self._values, self._times)

    def view(self, name: str, key: str) -> BrokerStatsData | None:
        """An item over its three periods, None if there is none."""
        with self._lock:
            row = self._rows.get((name, key))
            if row is None:
                return None
            return BrokerStatsData(self._minute.of(row), self._hour.of(row), self._day.of(row))

    def moved(self, period: str) -> list[tuple[str, str, BrokerStatsItem]]:
        """The items that moved in the last "minute", "hour" or "day": name, key, sums."""
        with self._lock:
            window = {"minute": self._minute, "hour": self._hour, "day": self._day}[period]
            rows = window.moved()
            items = ((*item, row) for item, row in self._rows.items() if row in rows)
            return [(name, key, window.of(row)) for name, key, row in items]

    def tps(self, name: str, key: str) -> float:
        """An item per second over the last minute, 0 if there is none."""
        with self._lock:
            row = self._rows.get((name, key))
            return 0.0 if row is None else self._minute.of(row).tps

    def totals(self, name: str) -> dict[str, int]:
        """The items of a name since the broker's start, by key."""
        with self._lock:
            rows = [(key, row) for (known, key), row in self._rows.items() if known == name]
            return {key: self._values[row] for key, row in rows}

    def forget(self, is_over: Callable[[str, str], bool]) -> None:
        """Drop the items and moments whose name and key `is_over` says so of."""
        with self._lock:
            for moment in [moment for moment in self._moments if is_over(*moment)]:
                del self._moments[moment]
            for item in [item for item in self._rows if is_over(*item)]:
                del self._rows[item]
            # Renumbering costs a pass over all samples.
            if len(self._values) - len(self._rows) > max(_DEAD_ROWS_MAX, len(self._rows)):
                self._renumber()

    def _renumber(self) -> None:
        kept = sorted(self._rows.values())
        places = {row: place for place, row in enumerate(kept)}
        self._rows = {item: places[row] for item, row in self._rows.items()}
        self._values, self._times = _picked(self._values, kept), _picked(self._times, kept)
        for window in (self._minute, self._hour, self._day):
            window.keep(kept)


def _picked(numbers: array[int], rows: list[int]) -> array[int]:
    return array("q", (numbers[row] for row in rows))

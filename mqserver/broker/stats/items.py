"""Counters by name and key, and their sums over the last minute, hour and day.

The periods come from RocketMQ's `StatsItem`. A minute has 7 samples, taken every 10 s; an hour
has 7 samples, taken every 10 minutes; a day has 25 samples, taken every hour. A sum is the last
sample minus the first. An item that is new counts as 0 one period before its first sample. Times
are monotonic.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from mqcommon.wire.bodies.groups import BrokerStatsData, BrokerStatsItem
from mqserver.broker.stats.counts import Counts

MINUTE, HOUR, DAY = (10_000, 7), (600_000, 7), (3_600_000, 25)
"""The milliseconds between two samples, and the number of samples kept."""
_DEAD_ROWS_MAX = 1_000
ITEMS_MAX = 100_000


class _Sample(NamedTuple):
    """All items at one moment; items with a higher row did not exist then."""

    at_ms: int
    counts: Counts


class Window:
    """The last samples of all items."""

    def __init__(self, period_ms: int, kept: int) -> None:
        self._period_ms = period_ms
        self._samples: deque[_Sample] = deque(maxlen=kept)
        self._due_ms: int | None = None

    def take(self, now_ms: int, counts: Counts) -> None:
        """Keep a sample if one is due. `counts` must not change any more."""
        due_ms = now_ms if self._due_ms is None else self._due_ms
        if now_ms < due_ms:
            return
        self._samples.append(_Sample(now_ms, counts))
        self._due_ms = due_ms + ((now_ms - due_ms) // self._period_ms + 1) * self._period_ms

    def of(self, row: int) -> BrokerStatsItem:
        """The sum, rate and average of an item over the samples."""
        samples = [sample for sample in self._samples if row < len(sample.counts)]
        if not samples:
            return BrokerStatsItem()
        first, last = samples[0], samples[-1]
        begin_ms, value, times = first.at_ms - self._period_ms, 0, 0
        if len(samples) == self._samples.maxlen:
            begin_ms, (value, times) = first.at_ms, first.counts.of(row)
        end_value, end_times = last.counts.of(row)
        total, count = end_value - value, end_times - times
        per_second = total * 1000.0 / max(1, last.at_ms - begin_ms)
        return BrokerStatsItem(total, per_second, total / count if count > 0 else 0.0)

    def moved(self) -> set[int]:
        """The rows whose sum over the samples is not 0."""
        if not self._samples:
            return set()
        is_full = len(self._samples) == self._samples.maxlen
        base = self._samples[0].counts if is_full else Counts()
        return set(self._samples[-1].counts.grown_since(base))

    def keep(self, rows: list[int]) -> None:
        """Renumber: row `rows[i]` becomes row i."""
        before, after = Counts(), Counts()
        for _ in range(len(self._samples)):
            at_ms, counts = self._samples.popleft()
            if counts is not before:
                before, after = counts, counts.picked(rows).copy(after)
            self._samples.append(_Sample(at_ms, after))


class Items:
    """The table of items. Methods may be called from any thread.

    now_ms: monotonic. items_max: most items, and most gauges; later ones are not counted.
    """

    def __init__(self, now_ms: Callable[[], int], items_max: int = ITEMS_MAX) -> None:
        self._now_ms = now_ms
        self._items_max = items_max
        self._lock = threading.Lock()
        self._rows: dict[str, dict[str, int]] = {}
        self._counts = Counts()
        self._last = Counts()
        self._minute, self._hour, self._day = Window(*MINUTE), Window(*HOUR), Window(*DAY)
        self._moments: dict[str, dict[str, int]] = {}

    def add(self, name: str, key: str, value: int, times: int = 1) -> None:
        """Add `value` for `times` requests to an item; the first call creates the item."""
        with self._lock:
            rows = self._rows.setdefault(name, {})
            row = rows.get(key)
            if row is not None:
                self._counts.add(row, value, times)
            elif len(self._counts) < self._items_max:
                rows[key] = len(self._counts)
                self._counts.append(value, times)

    def set(self, name: str, key: str, value: int) -> None:
        """Set a gauge: only its last value counts, and it has no samples."""
        with self._lock:
            moments = self._moments.setdefault(name, {})
            if key in moments or len(moments) < self._items_max:
                moments[key] = value

    def moments(self, name: str) -> dict[str, int]:
        """The gauges of a name, by key."""
        with self._lock:
            return dict(self._moments.get(name, {}))

    def sample(self) -> None:
        """Take the samples that are due; call it every 10 s."""
        with self._lock:
            now_ms = self._now_ms()
            self._last = self._counts.copy(self._last)
            for window in (self._minute, self._hour, self._day):
                window.take(now_ms, self._last)

    def view(self, name: str, key: str) -> BrokerStatsData | None:
        """An item over its three periods, None if the item does not exist."""
        with self._lock:
            row = self._rows.get(name, {}).get(key)
            if row is None:
                return None
            return BrokerStatsData(self._minute.of(row), self._hour.of(row), self._day.of(row))

    def moved(self, period: str) -> list[tuple[str, str, BrokerStatsItem]]:
        """The items that changed in the last "minute", "hour" or "day": name, key, sums."""
        with self._lock:
            window = {"minute": self._minute, "hour": self._hour, "day": self._day}[period]
            rows = window.moved()
            return [
                (name, key, window.of(row))
                for name, known in self._rows.items()
                for key, row in known.items()
                if row in rows
            ]

    def tps(self, name: str, key: str) -> float:
        """The rate of an item over the last minute, per second; 0 if the item does not exist."""
        with self._lock:
            row = self._rows.get(name, {}).get(key)
            return 0.0 if row is None else self._minute.of(row).tps

    def totals(self, name: str) -> dict[str, int]:
        """The totals of the items of a name since the broker's start, by key."""
        with self._lock:
            rows = self._rows.get(name, {})
            return {key: self._counts.of(row)[0] for key, row in rows.items()}

    def forget(self, is_over: Callable[[str, str], bool]) -> None:
        """Drop the items and gauges for whose name and key `is_over` returns True."""
        with self._lock:
            for table in (self._moments, self._rows):
                for name, known in table.items():
                    for key in [key for key in known if is_over(name, key)]:
                        del known[key]
            kept = sum(map(len, self._rows.values()))
            # Renumbering reads all samples, so it waits until many rows are unused.
            if len(self._counts) - kept > max(_DEAD_ROWS_MAX, kept):
                self._renumber()

    def _renumber(self) -> None:
        kept = sorted(row for known in self._rows.values() for row in known.values())
        places = {row: place for place, row in enumerate(kept)}
        for name, known in self._rows.items():
            self._rows[name] = {key: places[row] for key, row in known.items()}
        self._counts, self._last = self._counts.picked(kept), Counts()
        for window in (self._minute, self._hour, self._day):
            window.keep(kept)

"""Rates of a consumer, by topic, for `mqadmin consumerStatus`.

Rules: RocketMQ 4.9 `ConsumerStatsManager`: rates of about the last minute, sampled every 10 s, and
failures of about the last hour, sampled every 10 minutes. Unlike there, what came after the last
sample counts too.
"""

import time
from collections import deque
from typing import NamedTuple

from mqclient.wire.bodies.running import ConsumeStatus

__all__ = ["ConsumerStatistics"]

SAMPLE_INTERVAL = 10.0
"""Seconds between samples for the minute."""
_SAMPLES_PER_HOUR_SAMPLE = 60
_SAMPLES_MAX = 6


class _Counts(NamedTuple):
    """Totals since the start, at a time by time.monotonic()."""

    at: float
    consumed: int
    failed: int
    calls: int
    consume_ms: int
    pulls: int
    pulled: int
    pull_ms: int


class _Topic:
    """The counts of one topic now and when they were sampled."""

    def __init__(self) -> None:
        self.consumed = self.failed = self.calls = self.consume_ms = 0
        self.pulls = self.pulled = self.pull_ms = 0
        self.minute = deque([self.now()], _SAMPLES_MAX)
        self.hour = deque([self.now()], _SAMPLES_MAX)

    def now(self) -> _Counts:
        return _Counts(
            time.monotonic(),
            self.consumed,
            self.failed,
            self.calls,
            self.consume_ms,
            self.pulls,
            self.pulled,
            self.pull_ms,
        )


class ConsumerStatistics:
    """Counts what is pulled and consumed. Used by the loop's thread only."""

    def __init__(self) -> None:
        self._topics: dict[str, _Topic] = {}
        self._samples = 0

    def consumed(self, topic: str, ms: int, ok: int, failed: int) -> None:
        """Note a call of a handler: its milliseconds, and how many messages were ok or failed."""
        counts = self._topics.get(topic) or self._topics.setdefault(topic, _Topic())
        counts.calls += 1
        counts.consume_ms += ms
        counts.consumed += ok
        counts.failed += failed

    def pulled(self, topic: str, ms: int, messages: int) -> None:
        """Note a pull that found messages, and its milliseconds."""
        counts = self._topics.get(topic) or self._topics.setdefault(topic, _Topic())
        counts.pulls += 1
        counts.pull_ms += ms
        counts.pulled += messages

    async def sample(self) -> None:
        """To be called every SAMPLE_INTERVAL seconds."""
        self._samples += 1
        for counts in self._topics.values():
            now = counts.now()
            counts.minute.append(now)
            if not self._samples % _SAMPLES_PER_HOUR_SAMPLE:
                counts.hour.append(now)

    def status(self, topic: str) -> ConsumeStatus:
        """The rates of a topic."""
        counts = self._topics.get(topic)
        if counts is None:
            return ConsumeStatus()
        now, then = counts.now(), counts.minute[0]
        seconds = max(now.at - then.at, 0.001)
        pulls, calls = now.pulls - then.pulls, now.calls - then.calls
        return ConsumeStatus(
            pull_rt=(now.pull_ms - then.pull_ms) / pulls if pulls else 0.0,
            pull_tps=(now.pulled - then.pulled) / seconds,
            consume_rt=(now.consume_ms - then.consume_ms) / calls if calls else 0.0,
            consume_ok_tps=(now.consumed - then.consumed) / seconds,
            consume_failed_tps=(now.failed - then.failed) / seconds,
            consume_failed_msgs=now.failed - counts.hour[0].failed,
        )

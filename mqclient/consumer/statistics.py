"""Rates of a consumer, by topic, for RocketMQ's `mqadmin consumerStatus`.

Rules: RocketMQ 4.9 `ConsumerStatsManager`: rates of about the last minute, sampled every 10 s, and
failures of about the last hour, sampled every 10 minutes. Unlike there, events since the last
sample count too.
"""

from collections import deque
from time import monotonic
from typing import NamedTuple

from mqcommon.wire.bodies.running import ConsumeStatus

__all__ = ["ConsumerStatistics", "TopicCounts"]

SAMPLE_INTERVAL = 10.0
"""Seconds between samples for the minute."""
_SAMPLES_PER_HOUR_SAMPLE = 60
_SAMPLES_MAX = 6


class _Sample(NamedTuple):
    """The counts of a topic, at a time by time.monotonic()."""

    at: float
    consumed: int
    failed: int
    calls: int
    consume_ms: int
    pulls: int
    pulled: int
    pull_ms: int


class TopicCounts:
    """Counts of pulled and consumed messages of a topic since the start.

    consumed, failed: messages. calls, consume_ms: of handlers. pulls, pull_ms: pulls that found
    messages, `pulled` in all. The caller adds to the fields.
    """

    __slots__ = (*_Sample._fields[1:], "hour", "minute")

    def __init__(self) -> None:
        self.consumed = self.failed = self.calls = self.consume_ms = 0
        self.pulls = self.pulled = self.pull_ms = 0
        self.minute = deque([self.now()], _SAMPLES_MAX)
        self.hour = deque([self.now()], _SAMPLES_MAX)

    def now(self) -> _Sample:
        """The counts of this moment."""
        return _Sample(
            monotonic(),
            self.consumed,
            self.failed,
            self.calls,
            self.consume_ms,
            self.pulls,
            self.pulled,
            self.pull_ms,
        )


class ConsumerStatistics:
    """Keeps the counts of all topics. Used by the loop's thread only."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicCounts] = {}
        self._samples = 0

    def of(self, topic: str) -> TopicCounts:
        """The counts of a topic."""
        return self._topics.get(topic) or self._topics.setdefault(topic, TopicCounts())

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

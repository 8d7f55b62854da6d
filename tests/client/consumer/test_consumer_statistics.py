"""Rates of a consumer: of the last minute, and failures of the last hour."""

import pytest

from mqclient.consumer import statistics
from mqclient.consumer.statistics import ConsumerStatistics


@pytest.fixture
def clock(monkeypatch):
    """Seconds that a test moves on."""
    now = [100.0]
    monkeypatch.setattr(statistics, "monotonic", lambda: now[0])
    return now


async def wait(rates: ConsumerStatistics, clock: list[float], samples: int) -> None:
    for _ in range(samples):
        clock[0] += statistics.SAMPLE_INTERVAL
        await rates.sample()


async def test_rates_are_those_of_the_last_minute(clock):
    rates = ConsumerStatistics()
    counts = rates.of("T")
    counts.calls, counts.consume_ms, counts.consumed = 4, 10, 28
    counts.pulls, counts.pull_ms, counts.pulled = 2, 6, 30
    clock[0] += 2.0
    now = rates.status("T")
    assert (now.consume_rt, now.consume_ok_tps) == (2.5, 14.0)
    assert (now.pull_rt, now.pull_tps) == (3.0, 15.0)
    await wait(rates, clock, 6)
    then = rates.status("T")
    assert (then.consume_rt, then.consume_ok_tps, then.pull_rt, then.pull_tps) == (0, 0, 0, 0)


async def test_failures_are_those_of_the_last_hour(clock):
    rates = ConsumerStatistics()
    rates.of("T").failed = 3
    await wait(rates, clock, 6 * 30)
    assert rates.status("T").consume_failed_msgs == 3
    assert rates.status("T").consume_failed_tps == 0.0
    rates.of("T").failed += 1
    await wait(rates, clock, 6 * 30)
    assert rates.status("T").consume_failed_msgs == 1
    assert rates.status("Other").consume_failed_msgs == 0

"""What Java clients that only send and read ask of a broker: none of it is for Python to answer."""

from __future__ import annotations

import re
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ports import free_triple

from .conf import SMALL_STORE
from .java_driver import JavaDriver
from .our_servers import OurBroker, OurNamesrv

BEAT_MS = 200
ROUNDS = 10
TRIES = 4
"""What is asked all the time is asked each time."""
STEADY = (310, 11, 15, 34, 38, 41)
"""Sends, pulls, offsets, heartbeats, members and locks: each comes `ROUNDS` times at least."""
DEADLINE = 120.0
COUNT = re.compile(
    r'^rocketmq_requests_total\{.*code="(\d+)".*plane="(\w+)".*\} ([0-9.e+]+)$', re.M
)

Counts = dict[str, dict[int, int]]


class Watched:
    """A NameServer and a broker whose requests can be counted."""

    def __init__(self, home: Path) -> None:
        (home / "namesrv").mkdir()
        (home / "broker").mkdir()
        self._metrics = f"127.0.0.1:{free_triple()}"
        self._namesrv = OurNamesrv(home / "namesrv")
        self.namesrv = self._namesrv.address
        settings = {**SMALL_STORE, "metricsListen": self._metrics}
        try:
            self._broker = OurBroker(home / "broker", self.namesrv, settings=settings)
        except BaseException:
            self._namesrv.process.kill()
            raise
        self.broker = self._broker.address

    def requests(self) -> Counts:
        """Requests so far by code, of "native" and of "python"."""
        with urllib.request.urlopen(f"http://{self._metrics}/metrics", timeout=120) as answer:
            text = answer.read().decode()
        counts: Counts = {"native": {}, "python": {}}
        for code, plane, count in COUNT.findall(text):
            counts[plane][int(code)] = int(float(count))
        return counts

    def stop(self) -> None:
        try:
            self._broker.stop()
        finally:
            self._namesrv.stop()


@pytest.fixture
def watched(java: None, tmp_path: Path) -> Iterator[Watched]:
    running = Watched(tmp_path)
    yield running
    running.stop()


@pytest.fixture
def busy_driver(java: None, tmp_path: Path) -> Iterator[JavaDriver]:
    """Clients that look after their queues and locks all the time, not every 20 s."""
    every = [f"-Drocketmq.client.rebalance.{name}Interval={BEAT_MS}" for name in ("wait", "lock")]
    driver = JavaDriver(tmp_path / "driver", flags=tuple(every))
    yield driver
    driver.kill()


def test_steady_clients_are_not_for_python(watched: Watched, busy_driver: JavaDriver) -> None:
    driver, namesrv = busy_driver, watched.namesrv
    # Retry topics too: Java asks for their routes every 30 s only, and then subscribes anew.
    for topic in ("Steady", "%RETRY%steady_False", "%RETRY%steady_True"):
        options = ["-n", namesrv, "-b", watched.broker, "-t", topic, "-r", "4", "-w", "4"]
        driver.admin("updateTopic", *options)
    consumers = [
        driver.consume(namesrv, f"steady_{orderly}", "Steady", beatMs=BEAT_MS, orderly=orderly)
        for orderly in (False, True)
    ]
    driver.produce(namesrv, "Steady", 8)

    def live(expected: int) -> tuple[int, Counts, Counts]:
        """Send and read until everything came; how many messages, and the counts around it."""
        before, deadline = watched.requests(), time.monotonic() + DEADLINE
        while not _all_came(before["native"], (after := watched.requests())["native"]):
            assert time.monotonic() < deadline, (before, after)
            driver.produce(namesrv, "Steady", 4)
            expected += 4
            for consumer in consumers:
                consumer.await_messages(expected)
        return expected, before, after

    sent, _, _ = live(8)  # a client of Java's tells of itself a second after its start
    for _ in range(TRIES):  # or half a minute later, if its broker was not known by then
        sent, before, after = live(sent)
        crossed = Counter(after["python"])
        crossed.subtract(before["python"])
        if not (seen := {code: count for code, count in crossed.items() if count}):
            break
    assert seen == {}
    for consumer in consumers:
        consumer.stop()


def _all_came(before: dict[int, int], after: dict[int, int]) -> bool:
    return all(after.get(code, 0) - before.get(code, 0) >= ROUNDS for code in STEADY)

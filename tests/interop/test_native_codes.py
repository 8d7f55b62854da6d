"""Requests of Java clients that only send and read: the Rust data plane answers each of them."""

from __future__ import annotations

import re
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqcommon.wire.calls.group_calls import consumer_connection
from mqserver.embedded.testing import free_port
from tests.interop.conf import SMALL_STORE
from tests.interop.contents import Server
from tests.interop.java_driver import JavaConsumer, JavaDriver
from tests.interop.our_servers import OurBroker, OurNamesrv
from tests.waiting import until

BEAT_MS = 200
ONCE_MS = 3_600_000
"""A producer that sends one heartbeat only: see the last test."""
ROUNDS = 10
QUEUES = 4
TOPICS = ("Steady", "%RETRY%steady_False", "%RETRY%steady_True")
STEADY = (310, 11, 34, 38, 41)
"""Sends, pulls, heartbeats, members and locks while the members stay the same: at least `ROUNDS`
requests of each."""
MOVED = (11, 14, 15, 34, 38, 41, 42)
"""Codes of a group whose queues change hands: commits, queries of offsets, locks and unlocks."""
SOUGHT = (11, 15, 30, 31)
"""Codes of a client that seeks the start of its queues, reads to their end and commits."""
REGISTRATION = {
    34: "who is new, or has other words than before: queues that come give their topic's "
    "subscription a new version",
    35: "who leaves is taken out of its groups",
    11: "a pull before the heartbeat that tells of its group, or of its subscription's new version",
}
"""Codes that Python serves when clients join, change or leave, with the reason."""
BY_TEST = {203}
"""Requests of the tests themselves: the list of connected clients."""
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
        self._metrics = f"127.0.0.1:{free_port()}"
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


class Clients:
    """A producer, a concurrent consumer and an orderly one, of Java's, and what their broker knows
    of them. A test polls them and the broker until they agree.
    """

    def __init__(self, watched: Watched, driver: JavaDriver) -> None:
        self.watched, self._driver, self.sent = watched, driver, 0
        # Retry topics too: Java asks for their routes every 30 s only, and then subscribes again.
        for topic in TOPICS:
            queues = ["-r", str(QUEUES), "-w", str(QUEUES)]
            where = ["-n", watched.namesrv, "-b", watched.broker, "-t", topic]
            driver.admin("updateTopic", *where, *queues)
        self.concurrent, self.orderly = self.consumer(orderly=False), self.consumer(orderly=True)
        self.send(8)

    def consumer(self, *, orderly: bool) -> JavaConsumer:
        group = f"steady_{orderly}"
        return self._driver.consume(
            self.watched.namesrv, group, "Steady", beatMs=BEAT_MS, orderly=orderly
        )

    def send(self, count: int) -> None:
        self._driver.produce(self.watched.namesrv, "Steady", count, beatMs=ONCE_MS)
        self.sent += count

    def settle(self, group: str, *members: JavaConsumer) -> None:
        """Wait until the members hold all queues and the broker has their last heartbeats.

        A member whose queues changed sends a heartbeat before it next divides a topic's queues.
        """
        assert until(lambda: self._hold_all(members))
        shared = [member.held()["shared"] for member in members]

        def is_told() -> bool:
            held = [member.held() for member in members]
            later = all(one["shared"] > before for one, before in zip(held, shared, strict=True))
            versions = [one["versions"] for one in held]
            latest = {topic: max(one[topic] for one in versions) for topic in versions[0]}
            return later and self._known(group) == (len(members), latest)

        assert until(is_told), self._known(group)
        assert self._hold_all(members)

    def _hold_all(self, members: tuple[JavaConsumer, ...]) -> bool:
        share = 2 * QUEUES // len(members)
        return all(member.held()["queues"] == share for member in members)

    def _known(self, group: str) -> tuple[int, dict[str, int]]:
        """The broker's number of members, and the version of each subscription."""
        with Server(self.watched.broker) as server:
            known = server.ask(consumer_connection(group))
        versions = {topic: data.sub_version for topic, data in known.subscription_table.items()}
        return len(known.connection_set), versions

    def settled_alone(self) -> None:
        self.settle("steady_False", self.concurrent)
        self.settle("steady_True", self.orderly)

    def live(self) -> Counts:
        """Send and read until each code came `ROUNDS` times; return the requests of that time."""
        window, deadline = Window(self.watched), time.monotonic() + DEADLINE
        while not window.has(STEADY, ROUNDS):
            assert time.monotonic() < deadline, window.moved()
            read = [(one, len(one.messages)) for one in (self.concurrent, self.orderly)]
            self.send(QUEUES)
            for consumer, before in read:
                consumer.await_messages(before + QUEUES)
        return window.moved()


class Window:
    """The requests to a broker since this object was made."""

    def __init__(self, watched: Watched) -> None:
        self._watched, self._before = watched, watched.requests()

    def moved(self) -> Counts:
        """The codes asked by clients, and how often."""
        after, before = self._watched.requests(), self._before
        return {
            plane: {
                code: more
                for code, count in counts.items()
                if (more := count - before[plane].get(code, 0)) and code not in BY_TEST
            }
            for plane, counts in after.items()
        }

    def has(self, codes: tuple[int, ...], times: int = 1) -> bool:
        """Whether each of the codes was answered natively at least `times` times."""
        native = self.moved()["native"]
        return all(native.get(code, 0) >= times for code in codes)


@pytest.fixture
def clients(watched: Watched, busy_driver: JavaDriver) -> Iterator[Clients]:
    """Settled, and stopped at the end."""
    clients = Clients(watched, busy_driver)
    clients.settled_alone()
    yield clients
    clients.concurrent.stop()
    clients.orderly.stop()


def test_steady_clients_are_not_for_python(clients: Clients) -> None:
    assert clients.live()["python"] == {}


def test_members_that_come_and_go_are_for_python_once(watched: Watched, clients: Clients) -> None:
    window = Window(watched)
    second = clients.consumer(orderly=True)
    clients.settle("steady_True", clients.orderly, second)
    clients.send(8)
    second.stop()
    clients.settled_alone()
    assert until(lambda: window.has(MOVED)), window.moved()
    assert set(window.moved()["python"]) <= set(REGISTRATION), window.moved()
    assert clients.live()["python"] == {}, "and then no more"


def test_a_seek_and_a_commit_reach_python_only_once(
    watched: Watched, busy_driver: JavaDriver, clients: Clients
) -> None:
    window = Window(watched)
    place = {"namesrv": watched.namesrv, "group": "seeking", "topic": "Steady"}
    found = busy_driver.call("lite_pull", **place, count=clients.sent, tags="*", assigned=True)
    assert found["committed"] == clients.sent
    assert until(lambda: window.has(SOUGHT)), window.moved()
    assert set(window.moved()["python"]) <= set(REGISTRATION), window.moved()


def test_a_producer_that_only_says_it_is_there_is_not_for_python(
    watched: Watched, busy_driver: JavaDriver
) -> None:
    """A client of Java's names two producer groups, its own and CLIENT_INNER_PRODUCER, and in any
    order that changes each time, because they are a set of objects without a hash of their own.
    """
    driver, place = busy_driver, (watched.namesrv, "Steady")
    driver.admin("updateTopic", "-n", watched.namesrv, "-b", watched.broker, "-t", "Steady")
    driver.produce(*place, 1, beatMs=BEAT_MS)
    window = Window(watched)
    # All in one order by chance: once in a million runs.
    assert until(lambda: sum(counts.get(34, 0) for counts in window.moved().values()) >= 20)
    assert window.moved()["python"] == {}

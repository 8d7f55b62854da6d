"""Outages of servers and members: our clients handle every acknowledged message and none hangs."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqclient import (
    Admin,
    Connection,
    ConsumeContext,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
)
from mqcommon.message import ReceivedMessage
from mqcommon.wire.bodies.topics import TopicConfig
from tests.interop.clusters import BROKER, NAMESRV, Maker
from tests.waiting import until

PAUSE = 0.002
"""Seconds between two sends of a load."""
QUEUES = 2
"""Queues of each broker."""
OFTEN = {"connection": Connection(route_poll_interval=1.0, heartbeat_interval=1.0)}
"""Intervals in seconds, short, so that clients find soon a broker that comes back."""
VICTIM = """
import sys
from mqclient import PushConsumer

def handle(messages, context):
    for message in messages:
        sys.stdout.write(message.body.decode() + "\\n")
        sys.stdout.flush()

namesrv, group, topic = sys.argv[1:]
consumer = PushConsumer(group, namesrv, consume_from="earliest")
consumer.subscribe(topic, "*", handle)
consumer.run()
"""


class Pair:
    """A NameServer and two brokers."""

    def __init__(self, kind: Maker, folder: Path) -> None:
        self.namesrv_server = NAMESRV[kind](folder / "namesrv")
        self.namesrv = self.namesrv_server.address
        self.brokers = {
            name: BROKER[kind](folder / name, self.namesrv, name=name)
            for name in ("broker-a", "broker-b")
        }
        self._topics = 0

    def topic(self) -> str:
        """A new topic on both brokers."""
        self._topics += 1
        name = f"Outage{self._topics}"
        config = TopicConfig(name, read_queue_nums=QUEUES, write_queue_nums=QUEUES)
        with Admin(self.namesrv) as admin, Producer(self.namesrv) as producer:
            admin.topics.update(config, cluster="DefaultCluster")
            assert until(lambda: len(producer.queues(name)) == 2 * QUEUES)
        return name

    def stop(self) -> None:
        for server in (*self.brokers.values(), self.namesrv_server):
            server.discard()


@pytest.fixture(scope="module", params=["ours", "java"])
def pair(
    request: pytest.FixtureRequest, java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Pair]:
    running = Pair(request.param, tmp_path_factory.mktemp(f"outages_{request.param}"))
    yield running
    running.stop()


class Load:
    """Sends numbered messages until it is stopped, each until it is stored."""

    def __init__(self, namesrv: str, topic: str) -> None:
        self.acknowledged: list[bytes] = []
        self.failures: list[Exception] = []
        self._namesrv, self._topic = namesrv, topic
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with Producer(self._namesrv, timeout=90, **OFTEN) as producer:
            while not self._over.wait(PAUSE):
                body = b"%d" % (len(self.acknowledged) + len(self.failures))
                try:
                    producer.send(Message(self._topic, body))
                    self.acknowledged.append(body)
                except Exception as error:
                    self.failures.append(error)

    def __enter__(self) -> Load:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join(120)

    def go_on(self, count: int = 100) -> None:
        """Wait until `count` more messages are stored."""
        enough = len(self.acknowledged) + count
        assert until(lambda: len(self.acknowledged) >= enough, 120), self.failures


@contextmanager
def counting(pair: Pair, group: str, topic: str) -> Iterator[Counter[bytes]]:
    """A member of a group; yields the count of each message that it handled."""
    handled: Counter[bytes] = Counter()

    def handle(messages: list[ReceivedMessage], _context: ConsumeContext) -> None:
        handled.update(message.body for message in messages)

    with PushConsumer(group, pair.namesrv, consume_from="earliest", threads=1, **OFTEN) as member:
        member.subscribe(topic, "*", handle)
        yield handled


def test_one_of_two_brokers_dies_and_comes_back(pair: Pair) -> None:
    topic, broker = pair.topic(), pair.brokers["broker-b"]
    with counting(pair, "dying", topic) as handled, Load(pair.namesrv, topic) as load:
        load.go_on()
        broker.kill()
        load.go_on(200)
        broker.process = broker.process.again()
        load.go_on()
        assert until(lambda: {*load.acknowledged} <= {*handled}, 120)
    assert load.failures == []


def test_namesrv_and_brokers_restart_under_load(pair: Pair) -> None:
    topic = pair.topic()
    with counting(pair, "restarts", topic) as handled, Load(pair.namesrv, topic) as load:
        load.go_on()
        pair.namesrv_server.process.kill()
        load.go_on()
        pair.namesrv_server.process = pair.namesrv_server.process.again()
        load.go_on()
        for broker in pair.brokers.values():
            broker.stop()
        for broker in pair.brokers.values():
            broker.process = broker.process.again()
        load.go_on(200)
    with counting(pair, "restarts", topic) as later:
        assert until(lambda: {*load.acknowledged} <= {*handled, *later}, 120)
    assert load.failures == []


def test_a_member_is_killed(pair: Pair) -> None:
    topic = pair.topic()
    command = [sys.executable, "-c", VICTIM, pair.namesrv, "killed", topic]
    with Load(pair.namesrv, topic) as load:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as victim:
            assert victim.stdout is not None
            seen = {victim.stdout.readline().strip().encode() for _ in range(100)}
            victim.kill()
            seen |= {line.strip().encode() for line in victim.stdout if line.endswith("\n")}
        load.go_on()
    with counting(pair, "killed", topic) as handled:
        assert until(lambda: {*load.acknowledged} <= seen | {*handled}, 120)


def test_what_fails_for_ever_is_one_dead_letter(pair: Pair) -> None:
    topic, tries = pair.topic(), Counter[bytes]()

    def fail(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        tries.update(message.body for message in messages)
        context.delay_level = 1
        raise RuntimeError("never")

    with Producer(pair.namesrv) as producer:
        producer.send(Message(topic, b"dead"))
    options = {"consume_from": "earliest", **OFTEN}
    with PushConsumer("dead", pair.namesrv, max_retries=2, **options) as member:
        member.subscribe(topic, "*", fail)
        assert until(lambda: tries[b"dead"] == 3)
        with LitePullConsumer("g_dead", pair.namesrv, **options) as reader:
            reader.subscribe("%DLQ%dead")
            (dead,) = reader.poll(timeout=60)
    assert (dead.body, tries) == (b"dead", {b"dead": 3})
    assert dead.properties["RETRY_TOPIC"] == topic

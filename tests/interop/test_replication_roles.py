"""A master is killed under load and returns, and the roles are exchanged by hand: consumers of ours
and of Java go on, and no offset goes back."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

import pytest

from mqclient import Connection, Message, Producer, PushConsumer, SendStatus, TransactionProducer
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe, ask
from tests.interop.clusters import BROKER, Maker
from tests.interop.conf import SMALL_STORE
from tests.interop.java_driver import Event, JavaConsumer, JavaDriver
from tests.interop.java_servers import JavaBroker
from tests.interop.our_servers import OurBroker, OurNamesrv
from tests.replicas import assert_equal_logs, create_topic, figures_of, is_joined, queue_ends
from tests.waiting import answer_of, until

TOPIC, QUEUES = "Exchanged", 4
FAST = {**SMALL_STORE, "haSendHeartbeatInterval": 500}
SYNC_MASTER = {**FAST, "brokerRole": "SYNC_MASTER", "brokerId": 0}
ASYNC_MASTER = {**FAST, "brokerRole": "ASYNC_MASTER", "brokerId": 0}
SLAVE = {**FAST, "brokerRole": "SLAVE", "brokerId": 1}
GROUPS = OURS, JAVAS = "g_ours", "g_java"
BEAT_MS = 500
BEAT_S = BEAT_MS / 1000

SEND = Frame(
    Code.SEND_MESSAGE_V2,
    {"a": "P", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"},
    b"body",
)

Broker = JavaBroker | OurBroker
Events = list[Event]
Offsets = dict[tuple[str, int], int]
"""Offset by group and queue."""


class Readers:
    """A consumer of ours and one of Java, each in a group of its own."""

    def __init__(self, driver: JavaDriver, namesrv: str) -> None:
        self._lock = threading.Lock()
        self._bodies: set[str] = set()
        self._ours = PushConsumer(
            OURS,
            namesrv,
            consume_from="earliest",
            connection=Connection(route_poll_interval=BEAT_S, heartbeat_interval=BEAT_S),
            rebalance_interval=BEAT_S,
            commit_interval=BEAT_S,
        )
        self._ours.subscribe(TOPIC, "*", self._take)
        self._ours.start()
        self._java: JavaConsumer = driver.consume(
            namesrv, JAVAS, TOPIC, beatMs=BEAT_MS, routeMs=BEAT_MS
        )

    def _take(self, messages, _context) -> None:  # type: ignore[no-untyped-def]
        with self._lock:
            self._bodies.update(message.body.decode() for message in messages)

    def await_bodies(self, bodies: set[str]) -> None:
        """Each consumer has had each of these."""
        self._java.await_bodies(bodies)
        assert until(lambda: bodies <= self._bodies), bodies - self._bodies

    def __enter__(self) -> Readers:
        return self

    def __exit__(self, *_: object) -> None:
        self._java.stop()
        self._ours.close()


def produce(driver: JavaDriver, namesrv: str, body: str, count: int, **options: object) -> Events:
    """Send by Java's producer, which asks for routes often."""
    return driver.produce(namesrv, TOPIC, count, body=body, routeMs=BEAT_MS, **options)


def has_sent(driver: JavaDriver, namesrv: str) -> bool:
    """Whether Java's producer knows the master."""
    with suppress(AssertionError):
        return bool(produce(driver, namesrv, "found ", 1))
    return False


def send_all_kinds(driver: JavaDriver, namesrv: str, name: str) -> set[str]:
    """Plain messages, batches, delayed messages and transactions; returns their bodies."""
    assert until(lambda: has_sent(driver, namesrv))
    produce(driver, namesrv, f"{name} plain ", 10)
    produce(driver, namesrv, f"{name} batch ", 10, batch=True)
    produce(driver, namesrv, f"{name} late ", 10, delayLevel=1)
    sent = {
        f"{name} {kind} {number}" for kind in ("plain", "batch", "late") for number in range(10)
    }
    batch = [f"{name} own batch {number}" for number in range(10)]
    with Producer(namesrv) as producer:
        producer.send([Message(TOPIC, body.encode()) for body in batch])
    with TransactionProducer(f"tx_{name}", namesrv, check=lambda _message: None) as transactions:
        with transactions.transaction(Message(TOPIC, f"{name} kept".encode())) as kept:
            kept.commit()
        with transactions.transaction(Message(TOPIC, f"{name} gone".encode())) as gone:
            gone.rollback()
    return sent | {*batch, f"{name} kept"}


def send_acknowledged(driver: JavaDriver, namesrv: str, name: str) -> set[str]:
    """Messages of both clients, each with SEND_OK; returns their bodies."""
    results = produce(driver, namesrv, f"{name} ", 40)
    assert {result["status"] for result in results} == {"SEND_OK"}
    own = {f"{name} own {number}" for number in range(40)}
    with Producer(namesrv) as producer:
        for body in own:
            assert producer.send(Message(TOPIC, body.encode())).status is SendStatus.SEND_OK
    return own | {f"{name} {number}" for number in range(40)}


def committed(address: str) -> Offsets:
    """The offsets of both groups at a broker; -1 for none."""
    found = {}
    with Probe(address) as probe:
        for group in GROUPS:
            for queue_id in range(QUEUES):
                fields = {"consumerGroup": group, "topic": TOPIC, "queueId": str(queue_id)}
                reply = probe.call(Frame(Code.QUERY_CONSUMER_OFFSET, fields))
                found[group, queue_id] = int(reply.fields["offset"]) if reply.code == 0 else -1
    return found


def await_all_committed(address: str) -> Offsets:
    """Wait until both groups have committed the ends of all queues at this broker."""

    def behind() -> Offsets:
        ends = queue_ends(address, TOPIC, QUEUES)
        return {at: offset for at, offset in committed(address).items() if offset != ends[at[1]]}

    answer_of(behind, lambda left: not left)
    return committed(address)


def assert_not_lower(address: str, before: Offsets) -> None:
    answer_of(
        lambda: committed(address),
        lambda now: all(now[at] >= offset for at, offset in before.items()),
    )


class Brokers:
    """Two brokers of one name, at one NameServer; each keeps its port and its store."""

    def __init__(self, home: Path, *kinds: Maker) -> None:
        self._home, self._kinds = home, kinds
        for folder in ("namesrv", "0", "1"):
            (home / folder).mkdir()
        self._names = OurNamesrv(home / "namesrv")
        self.namesrv = self._names.address
        self.both: list[Broker] = []

    def start(self, number: int, settings: Mapping[str, object]) -> Broker:
        """Start a broker in the role that the settings say."""
        before = self.both[number] if number < len(self.both) else None
        broker = BROKER[self._kinds[number]](
            self._home / str(number),
            self.namesrv,
            settings=settings,
            port=before.port if before else None,
        )
        self.both[number : number + 1] = [broker]
        return broker

    def await_joined(self) -> None:
        """The slave follows: a broker of ours says so."""
        ours = next(broker for broker in self.both if isinstance(broker, OurBroker))
        assert until(lambda: is_joined(ours.address)), figures_of(ours.address)

    def discard(self) -> None:
        for server in (*reversed(self.both), self._names):
            server.discard()


@pytest.fixture(scope="module")
def driver(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDriver]:
    """A JVM whose consumers share their queues every second, and not every 20 seconds."""
    flag = "-Drocketmq.client.rebalance.waitInterval=1000"
    made = JavaDriver(tmp_path_factory.mktemp("java"), flags=(flag,))
    yield made
    made.kill()


@pytest.fixture
def brokers(request: pytest.FixtureRequest, tmp_path: Path, java: None) -> Iterator[Brokers]:
    """A SYNC_MASTER and the slave that joined it; both have the topic."""
    made = Brokers(tmp_path, *request.param)
    try:
        create_topic(made.start(0, SYNC_MASTER).address, TOPIC, QUEUES)
        topics = made.start(1, SLAVE).store / "config" / "topics.json"
        assert until(lambda: topics.exists() and TOPIC in topics.read_text())
        made.await_joined()
        yield made
    finally:
        made.discard()


@pytest.mark.parametrize(
    "brokers",
    [
        ("ours", "ours"),
        pytest.param(("java", "ours"), marks=pytest.mark.soak),
        pytest.param(("ours", "java"), marks=pytest.mark.soak),
    ],
    ids=["ours", "of Java", "Java's"],
    indirect=True,
)
def test_consumers_go_on_when_roles_change(brokers: Brokers, driver: JavaDriver) -> None:
    with Readers(driver, brokers.namesrv) as readers:
        readers.await_bodies(send_all_kinds(driver, brokers.namesrv, "first"))
        offsets = kill_and_return(brokers, driver, readers)
        exchange(brokers)
        readers.await_bodies(send_all_kinds(driver, brokers.namesrv, "third"))
        slave, master = brokers.both
        await_all_committed(master.address)
        assert_not_lower(master.address, offsets)
        assert_equal_logs(master, slave)
        ends = queue_ends(master.address, TOPIC, QUEUES)
        answer_of(lambda: queue_ends(slave.address, TOPIC, QUEUES), ends.__eq__)


def kill_and_return(brokers: Brokers, driver: JavaDriver, readers: Readers) -> Offsets:
    """Kill the master, read on from the slave, and start the master again."""
    master, slave = brokers.both
    sent = send_acknowledged(driver, brokers.namesrv, "before the kill")
    master.kill()
    readers.await_bodies(sent)
    offsets = await_all_committed(slave.address)
    master.process = master.process.again()
    brokers.await_joined()
    if isinstance(master, OurBroker):  # Java's has lost what consumers committed to its slave
        assert_not_lower(master.address, offsets)
    readers.await_bodies(send_all_kinds(driver, brokers.namesrv, "second"))
    offsets = await_all_committed(master.address)
    assert_equal_logs(master, slave)
    return offsets


def exchange(brokers: Brokers) -> None:
    """Make the slave the master by hand, as docs/replication.md says."""
    for broker in brokers.both:
        broker.stop()
    brokers.start(1, ASYNC_MASTER)
    brokers.start(0, SLAVE)
    brokers.await_joined()


def test_a_java_producer_sees_what_slaves_did(tmp_path: Path, driver: JavaDriver) -> None:
    alone = Brokers(tmp_path, "ours")
    try:
        master = alone.start(0, {**SYNC_MASTER, "slaveTimeout": 100})
        create_topic(master.address, TOPIC, QUEUES)

        def seen() -> tuple[str, int]:
            (result,) = produce(driver, alone.namesrv, "x", 1)
            return result["status"], ask(master.address, SEND).code

        assert seen() == ("SLAVE_NOT_AVAILABLE", 11)
        with socket.create_connection(("127.0.0.1", master.port + 1)) as mute:
            mute.sendall(bytes(8))  # it joins, and acknowledges nothing
            assert until(lambda: is_joined(master.address))
            assert seen() == ("FLUSH_SLAVE_TIMEOUT", 12)
    finally:
        alone.discard()

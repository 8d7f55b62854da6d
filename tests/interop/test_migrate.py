"""The walk of docs/migrate.md: a store goes from a Java broker to ours and back, in place.

Both brokers read the same broker.conf. The clients do not change: Java's, and transactions and
delayed messages that are pending when the brokers change.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import mqstore
from mqclient import Connection, Message, Producer, TransactionProducer, TransactionState
from mqcommon.message import ReceivedMessage, decode_messages
from mqserver.embedded.testing import free_port
from tests.interop.clusters import BROKER, Maker
from tests.interop.conf import SMALL_STORE
from tests.interop.contents import Server
from tests.interop.java_driver import JavaDriver
from tests.interop.our_servers import OurNamesrv
from tests.waiting import answer_of, until

PAGE = Path(__file__).parents[2] / "docs" / "migrate.md"
ORDERS, REMINDERS, PAYMENTS = "Orders", "Reminders", "Payments"
GROUP = "order_readers"
COUNT = 20
TEN_SECONDS = 3
"""The delay level of reminders: they are pending when the broker stops."""
SETTINGS = {**SMALL_STORE, "transactionCheckMax": 10_000}
"""No broker gives up on a payment before its producer is back, with its next heartbeat."""
PATIENT = {"timeout": 60.0, "connection": Connection(heartbeat_interval=1.0)}


@pytest.fixture(scope="module")
def namesrv(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = OurNamesrv(tmp_path_factory.mktemp("namesrv"))
    yield server.address
    server.stop()


class Walk:
    """One broker after the other, with one home: one broker.conf, one store, one address."""

    def __init__(self, home: Path, namesrv: str, driver: JavaDriver) -> None:
        self.home, self.namesrv, self.driver = home, namesrv, driver
        self.port = free_port()
        self.decided: set[str] = set()
        """Payments that their producer commits when a broker asks."""
        self._conf = ""

    @contextmanager
    def broker(self, maker: Maker) -> Iterator[Server]:
        broker = BROKER[maker](self.home, self.namesrv, port=self.port, settings=SETTINGS)
        try:
            conf = (self.home / "broker.conf").read_text()
            assert conf == (self._conf or conf)
            self._conf = conf
            with Server(broker.address) as server:
                yield server
            broker.stop()
        finally:
            broker.kill()

    def create(self, topic: str, queues: int) -> None:
        address, asked = f"127.0.0.1:{self.port}", ("-n", self.namesrv, "-t", topic)
        size = ("-r", str(queues), "-w", str(queues))
        answer_of(
            lambda: self.driver.admin("updateTopic", *asked, "-b", address, *size),
            lambda printed: "success" in printed,
        )
        answer_of(
            lambda: self.driver.admin("topicRoute", *asked), lambda printed: address in printed
        )

    def send(self, name: str) -> None:
        """Orders by the Java client."""
        options = {"body": f"{name} ", "keys": f"{name}-"}
        results = self.driver.produce(self.namesrv, ORDERS, COUNT, **options)
        assert {result["status"] for result in results} == {"SEND_OK"}

    def read(self, group: str, *names: str) -> None:
        """The group gets these orders, each once, and no others."""
        consumer = self.driver.consume(self.namesrv, group, ORDERS)
        messages = consumer.await_messages(COUNT * len(names))
        consumer.stop()
        wanted = sorted(f"{name} {number}" for name in names for number in range(COUNT))
        assert sorted(message["body"] for message in messages) == wanted

    def leave_pending(self, producer: Producer, payments: TransactionProducer, name: str) -> None:
        """A delayed reminder, and a payment whose producer has not decided."""
        producer.send(Message(REMINDERS, name.encode(), delay_level=TEN_SECONDS))
        with payments.transaction(Message(PAYMENTS, name.encode())):
            pass

    def state(self, message: ReceivedMessage) -> TransactionState:
        is_decided = message.body.decode() in self.decided
        return TransactionState.COMMIT if is_decided else TransactionState.UNKNOWN


def arrived(server: Server, topic: str) -> list[str]:
    """The bodies of a topic with one queue."""
    records = server.queue((topic, 0))
    return [decode_messages(records[offset])[0].body.decode() for offset in sorted(records)]


def commands() -> list[str]:
    """The commands that the page runs between the two brokers, on broker.conf and store."""
    (block,) = re.findall(r"<!-- between -->\n```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return [line for line in str(block).splitlines() if line]


def test_there_and_back(namesrv: str, java_driver: JavaDriver, tmp_path: Path) -> None:
    walk = Walk(tmp_path, namesrv, java_driver)
    with (
        Producer(namesrv, timeout=60.0) as producer,
        TransactionProducer("payers", namesrv, check=walk.state, **PATIENT) as payments,
    ):
        with walk.broker("java"):
            for topic, queues in ((ORDERS, 4), (REMINDERS, 1), (PAYMENTS, 1)):
                walk.create(topic, queues)
            walk.send("java")
            walk.read(GROUP, "java")
            walk.send("unread")
            walk.leave_pending(producer, payments, "of java")

        bin_directory = Path(sys.executable).parent
        for line in commands():
            environment = {"PATH": f"{bin_directory}:/usr/bin:/bin"}
            run = ["bash", "-euo", "pipefail", "-c", line]
            subprocess.run(run, cwd=tmp_path, env=environment, check=True, timeout=120)

        with walk.broker("ours") as server:
            walk.read(GROUP, "unread")
            walk.decided.add("of java")
            assert until(lambda: arrived(server, PAYMENTS) == ["of java"])
            assert until(lambda: arrived(server, REMINDERS) == ["of java"])
            walk.send("ours")
            walk.leave_pending(producer, payments, "of ours")

        asked = mqstore.open(tmp_path / "store").stat().broker_conf
        conf = (tmp_path / "broker.conf").read_text().splitlines()
        assert {f"{key}={value}" for key, value in asked.items()} <= set(conf)

        with walk.broker("java") as server:
            walk.read(GROUP, "ours")
            walk.decided.add("of ours")
            assert until(lambda: arrived(server, PAYMENTS) == ["of java", "of ours"])
            assert until(lambda: arrived(server, REMINDERS) == ["of java", "of ours"])
            walk.read(f"{GROUP}_late", "java", "unread", "ours")

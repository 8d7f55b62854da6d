"""A store directory that changes hands: ours to Java and back, after clean stops and kills."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqserver.embedded.testing import free_port
from tests.interop.clusters import BROKER, Maker
from tests.interop.java_driver import JavaDriver
from tests.interop.our_servers import OurNamesrv
from tests.waiting import until

COUNT = 90  # of 1 KiB: rolls the 64 KiB log files


@pytest.fixture(scope="module")
def namesrv(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = OurNamesrv(tmp_path_factory.mktemp("namesrv"))
    yield server.address
    server.stop()


class HandOver:
    """Runs one broker after the other on the same store, at the same address."""

    def __init__(self, home: Path, namesrv: str, driver: JavaDriver) -> None:
        self.home, self.namesrv, self.driver = home, namesrv, driver
        self.store = home / "store"
        self.port = free_port()
        self.group = f"group_{home.name}"
        self.topic = f"Topic_{home.name}"  # a topic of its own: clients keep routes for 30 s
        self._turn = 0

    def start(self, maker: Maker):  # type: ignore[no-untyped-def]
        self._turn += 1
        home = self.home / f"turn{self._turn}"
        home.mkdir()
        return BROKER[maker](home, self.namesrv, port=self.port, store=self.store)

    def produce(self, prefix: str) -> None:
        options = {"body": f"{prefix} ", "padding": 1000, "keys": f"{prefix}-"}
        results = self.driver.produce(self.namesrv, self.topic, COUNT, **options)
        assert {result["status"] for result in results} == {"SEND_OK"}
        # The broker announces an auto-created topic after the send; clients ask every 30 s only.
        words = ["topicRoute", "-n", self.namesrv, "-t", self.topic]
        assert until(lambda: f":{self.port}" in self.driver.admin(*words))

    def consume(self, group: str, count: int) -> set[str]:
        """The first words of `count` bodies, each exactly once."""
        consumer = self.driver.consume(self.namesrv, group, self.topic)
        messages = consumer.await_messages(count)
        consumer.stop()
        bodies = [message["body"].rstrip("x") for message in messages]
        assert len(bodies) == len(set(bodies)) == count
        return set(bodies)

    def key_is_found(self, key: str) -> bool:
        words = ["queryMsgByKey", "-n", self.namesrv, "-t", self.topic, "-k", key]
        return len(self.driver.admin(*words).strip().splitlines()) == 2


def bodies(prefix: str) -> set[str]:
    return {f"{prefix} {i}" for i in range(COUNT)}


@pytest.mark.parametrize("ending", ["stopped", "killed"])
@pytest.mark.parametrize(("first", "second"), [("ours", "java"), ("java", "ours")])
def test_a_store_changes_hands(
    first: Maker, second: Maker, ending: str, namesrv: str, java_driver: JavaDriver, tmp_path: Path
) -> None:
    hand_over = HandOver(tmp_path, namesrv, java_driver)
    broker = hand_over.start(first)
    try:
        hand_over.produce("one")
        hand_over.consume(hand_over.group, COUNT)
        broker.stop() if ending == "stopped" else broker.kill()

        broker = hand_over.start(second)
        assert hand_over.consume(f"{hand_over.group}_late", COUNT) == bodies("one")
        assert hand_over.key_is_found("one-42")
        hand_over.produce("two")
        if ending == "stopped":  # its committed offsets went with the store
            assert hand_over.consume(hand_over.group, COUNT) == bodies("two")
        broker.stop()

        broker = hand_over.start(first)
        everything = hand_over.consume(f"{hand_over.group}_last", 2 * COUNT)
        assert everything == bodies("one") | bodies("two")
        assert hand_over.key_is_found("one-7")
        assert hand_over.key_is_found("two-88")
        broker.stop()
    finally:
        broker.kill()

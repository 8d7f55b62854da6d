"""A NameServer with one broker, each ours or Java's."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest

from tests.interop.contents import Server
from tests.interop.java_driver import JavaDriver
from tests.interop.java_servers import Java5Broker, Java5Namesrv, JavaBroker, JavaNamesrv
from tests.interop.our_servers import OurBroker, OurNamesrv
from tests.waiting import answer_of, until

Maker = Literal["ours", "java", "java5"]
NAMESRV = {"ours": OurNamesrv, "java": JavaNamesrv, "java5": Java5Namesrv}
BROKER = {"ours": OurBroker, "java": JavaBroker, "java5": Java5Broker}
OUR_CLIENTS_AT = [
    "our_cluster",
    "java_cluster",
    pytest.param("java5_cluster", marks=pytest.mark.soak),
]
"""Clusters on which our clients are tested."""


class Cluster:
    """Two running servers. namesrv, broker: "host:port"."""

    def __init__(self, home: Path, namesrv: Maker, broker: Maker) -> None:
        (home / "namesrv").mkdir(parents=True)
        (home / "broker").mkdir()
        self._namesrv = NAMESRV[namesrv](home / "namesrv")
        try:
            self._broker = BROKER[broker](home / "broker", self._namesrv.address)
        except BaseException:
            self._namesrv.process.kill()
            raise
        self.namesrv = self._namesrv.address
        self.broker = self._broker.address
        self.broker_port = self._broker.port

    def create_topic(self, driver: JavaDriver, topic: str, queues: int = 4) -> str:
        """Create a topic by Java's mqadmin; returns its name once it has a route."""
        options = ["-b", self.broker, "-t", topic, "-r", str(queues), "-w", str(queues)]
        printed = ""

        def is_made() -> bool:  # mqadmin fails on a late answer
            nonlocal printed
            printed = driver.admin("updateTopic", "-n", self.namesrv, *options)
            return f"create topic to {self.broker} success." in printed

        assert until(is_made), printed
        self.await_route(driver, topic)
        return topic

    def await_route(self, driver: JavaDriver, topic: str, timeout: float = 90.0) -> str:
        """Java's text of a route, as soon as the NameServer knows it."""
        words = ("topicRoute", "-n", self.namesrv, "-t", topic)
        return answer_of(lambda: driver.admin(*words), lambda text: self.broker in text, timeout)

    def await_stored(self, topic: str, count: int) -> None:
        """Wait until `count` messages are in the queues: dispatch may lag behind answered sends."""
        with Server(self.broker) as server:
            assert until(lambda: server.length(topic) == count), server.length(topic)

    def stop(self) -> None:
        """Stop both, the broker first; a server of ours that does not end well is a failure."""
        try:
            self._broker.discard()
        finally:
            self._namesrv.discard()

"""Brokers and NameServers of both kinds register with each other, and no route is lost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import ask
from tests.interop.conf import SMALL_STORE
from tests.interop.java_servers import JavaBroker, JavaNamesrv
from tests.interop.our_servers import OurBroker, OurNamesrv
from tests.waiting import until

SECRET = "correct horse battery staple"
TOPIC = {
    "topic": "Orders", "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4",
    "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
}  # fmt: skip

pytestmark = pytest.mark.usefixtures("java")


def brokers_of(namesrv: str, topic: str = "TBW102") -> dict[str, str]:
    """Id to address, as the topic's route says."""
    reply = ask(namesrv, Frame(105, {"topic": topic, "acceptStandardJsonOnly": "true"}))
    if reply.code:
        return {}
    found = json.loads(reply.body)["brokerDatas"]
    return {number: address for data in found for number, address in data["brokerAddrs"].items()}


def test_a_java_master_and_its_slave_come_and_go_at_ours(tmp_path: Path) -> None:
    """As with a Java NameServer, without any setting."""
    names = OurNamesrv(tmp_path / "names")
    master = JavaBroker(tmp_path / "master", names.address)
    slave = None
    try:
        be_slave = {**SMALL_STORE, "brokerRole": "SLAVE", "brokerId": 1}
        slave = JavaBroker(tmp_path / "slave", names.address, settings=be_slave)
        both = {"0": master.address, "1": slave.address}
        assert until(lambda: brokers_of(names.address) == both)
        assert ask(master.address, Frame(17, TOPIC)).code == 0
        assert brokers_of(names.address, "Orders") == both

        master.kill()
        assert until(lambda: brokers_of(names.address) == {"1": slave.address}), "its connection"
        master = JavaBroker(tmp_path / "master", names.address, port=master.port)
        assert until(lambda: brokers_of(names.address, "Orders") == both), "a new connection"

        master.stop()
        assert brokers_of(names.address, "Orders") == {"1": slave.address}, "it unregistered"
        taken = slave.port
        slave.kill()
        assert until(lambda: not brokers_of(names.address))
        slave = JavaBroker(tmp_path / "slave", names.address, port=taken)
        assert until(lambda: brokers_of(names.address) == {"0": slave.address}), "it is the master"
    finally:
        for server in (master, slave):
            if server is not None:
                server.discard()
        names.discard()


def test_our_broker_with_a_secret_registers_at_java(tmp_path: Path) -> None:
    """RocketMQ's NameServer passes over the fields that it does not know."""
    names = JavaNamesrv(tmp_path / "names")
    settings = {**SMALL_STORE, "registrationSecret": SECRET}
    broker = OurBroker(tmp_path / "broker", names.address, settings=settings)
    try:
        assert ask(broker.address, Frame(17, TOPIC)).code == 0
        assert brokers_of(names.address, "Orders") == {"0": broker.address}
        broker.stop()
        assert brokers_of(names.address, "Orders") == {}, "it unregistered"
    finally:
        broker.process.kill()
        names.discard()


def test_a_namesrv_with_a_secret_takes_ours_and_refuses_java(tmp_path: Path) -> None:
    secret = {"registrationSecret": SECRET}
    names = OurNamesrv(tmp_path / "names", settings=secret)
    broker = OurBroker(tmp_path / "broker", names.address, settings={**SMALL_STORE, **secret})
    java = None
    try:
        java = JavaBroker(tmp_path / "java", names.address, name="broker-b")
        assert brokers_of(names.address) == {"0": broker.address}
        assert until(lambda: "set registrationSecret on the broker too" in names.process.output)
        assert SECRET not in names.process.output
    finally:
        if java is not None:
            java.discard()
        broker.discard()
        names.discard()

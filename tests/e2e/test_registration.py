"""Registration with every NameServer: one is away, one restarts, a topic is created."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame
from mqserver.config.load import load, pairs
from mqserver.config.namesrv_table import NAMESRV
from mqserver.embedded.raw_client import Probe, ask
from mqserver.embedded.standalone import Standalone
from mqserver.embedded.testing import free_port
from mqserver.namesrv.server import NameServer
from tests.waiting import until


@contextmanager
def namesrv(folder: Path, port: int = 0) -> Iterator[NameServer]:
    settings = {"listenPort": str(port), "bindAddress": "127.0.0.1"}
    settings["kvConfigPath"] = str(folder / "kv.json")
    server = NameServer(load(NAMESRV, flags=pairs(settings, "test")))
    server.start()
    try:
        yield server
    finally:
        server.stop()


def route(address: str, topic: str) -> bytes:
    return ask(address, Frame(105, {"topic": topic})).body


def test_every_namesrv_is_updated_even_if_one_is_down(tmp_path: Path) -> None:
    with namesrv(tmp_path / "1") as one, namesrv(tmp_path / "2") as two:
        nobody = f"127.0.0.1:{free_port()}"
        addresses = f"{one.address};{nobody};{two.address}"
        with Standalone(settings={"namesrvAddr": addresses}) as mq:
            topic = mq.topic()
            assert route(one.address, topic) == route(two.address, topic) != b""
        assert route(one.address, topic) == route(two.address, topic) == b"", "it unregistered"


def test_a_namesrv_that_restarts_learns_everything_again(tmp_path: Path) -> None:
    port = free_port()
    with namesrv(tmp_path, port) as first:
        mq = Standalone(settings={"namesrvAddr": first.address}).start()
        topic = mq.topic()
        assert route(first.address, topic)
    try:
        with namesrv(tmp_path, port) as again:
            assert until(lambda: bool(route(again.address, topic)))
    finally:
        mq.stop()


@pytest.mark.parametrize("compressed", ["true", "false"])
def test_a_topic_created_by_a_send_is_announced(tmp_path: Path, compressed: str) -> None:
    with Standalone(settings={"compressedRegister": compressed}) as mq:
        letters = {"a": "p", "b": "Fresh", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
        send = Frame(310, {**letters, "g": "1", "h": "0", "m": "false"}, b"x")
        assert ask(mq.broker_address, send).code == 0
        assert until(lambda: bool(route(mq.namesrv, "Fresh")))


def test_a_retry_topic_is_known_when_the_heartbeat_is_answered() -> None:
    """50 of 50: a client asks for the retry topic's queues right after its first heartbeat."""
    with Standalone() as mq, Probe(mq.broker_address) as broker, Probe(mq.namesrv) as names:
        for number in range(50):
            group = f"fresh-{number}"
            consumer = {"groupName": group, "subscriptionDataSet": []}
            body = {"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []}
            assert broker.call(Frame(34, {}, json.dumps(body).encode())).code == 0
            assert names.call(Frame(105, {"topic": f"%RETRY%{group}"})).code == 0, group


def test_topics_are_known_when_their_sends_are_answered() -> None:
    """Creations at the same time share rounds, and each waits for the round that has it."""

    def send_and_ask(number: int) -> int:
        letters = {"a": "p", "b": f"Fresh{number}", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
        send = Frame(310, {**letters, "g": "1", "h": "0", "m": "false"}, b"x")
        assert ask(mq.broker_address, send).code == 0
        return ask(mq.namesrv, Frame(105, {"topic": f"Fresh{number}"})).code

    with Standalone() as mq, ThreadPoolExecutor(8) as pool:
        assert set(pool.map(send_and_ask, range(64))) == {0}


def test_a_silent_namesrv_delays_a_new_topic_by_a_bound(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute, namesrv(tmp_path) as server:
        addresses = f"127.0.0.1:{mute.getsockname()[1]};{server.address}"
        settings = {"namesrvAddr": addresses, "registerBrokerTimeoutMills": "500"}
        with Standalone(settings=settings) as mq, Probe(mq.broker_address) as broker:
            letters = {"a": "p", "b": "Fresh", "c": "TBW102", "d": "4", "e": "0", "f": "0"}
            send = Frame(310, {**letters, "g": "1", "h": "0", "m": "false"}, b"x")
            assert broker.call(send).code == 0
            assert route(server.address, "Fresh")


def test_an_unchanged_table_is_not_sent_again_without_force(tmp_path: Path) -> None:
    with namesrv(tmp_path) as server:
        settings = {"namesrvAddr": server.address, "forceRegister": "false"}
        with Standalone(settings=settings) as mq:
            topic = mq.topic()
            assert route(server.address, topic)


def test_order_configuration_and_a_new_permission_are_registered(tmp_path: Path) -> None:
    with Standalone() as mq:
        topic = mq.topic()
        order = {"namespace": "ORDER_TOPIC_CONFIG", "key": topic, "value": "broker-a:4"}
        assert ask(mq.namesrv, Frame(100, order)).code == 0
        assert ask(mq.broker_address, Frame(25, body=b"brokerPermission=4")).code == 0
        assert until(lambda: b'"perm":4' in route(mq.namesrv, topic))
        mq.topic()

        def ordered() -> bool:
            body = ask(mq.broker_address, Frame(21)).body
            return b'"order":true' in body

        assert until(ordered)


def test_online_changes_survive_a_restart(tmp_path: Path) -> None:
    with Standalone() as mq:
        assert ask(mq.broker_address, Frame(25, body=b"regionId=here\nunknown=1")).code == 0
        assert ask(mq.broker_address, Frame(25, body=b"listenPort=1")).code == 16
        assert ask(mq.broker_address, Frame(25)).code == 0
        shown = ask(mq.broker_address, Frame(26))
        assert b"regionId=here\n" in shown.body
        assert '"counter":1' in shown.fields["version"]
        saved = mq.data / "config" / "broker.override.properties"
        assert saved.read_text() == "regionId=here\n"

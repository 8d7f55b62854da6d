"""`/metrics`, `/live` and `/ready` of both servers."""

from __future__ import annotations

import gzip
import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request as UrlRequest
from urllib.request import urlopen

import pytest

from mqcommon.wire.frame import Frame
from mqserver.broker.broker import Broker
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.loaded import SettingsError
from mqserver.config.namesrv_table import NAMESRV
from mqserver.embedded.in_process import InProcessServers
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.testing import free_port
from mqserver.health import http_listener
from mqserver.health.endpoints import health_listener
from mqserver.health.http_listener import address_of
from mqserver.namesrv.server import NameServer
from mqserver.runtime.processor_api import Refused
from tests.waiting import until

LISTEN = {"metricsListen": "127.0.0.1:0", "listenPort": "0", "bindAddress": "127.0.0.1"}
DIRECTORIES = ("commitlog", "consumequeue")
COMMON = {'cluster="DefaultCluster"', 'node_id="watched"', 'node_type="broker"'}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[InProcessServers]:
    store = {"storePathRootDir": str(tmp_path), "mappedFileSizeCommitLog": str(1 << 20)}
    store |= {"maxHashSlotNum": "100", "maxIndexNum": "400", "brokerName": "watched"}
    pair = InProcessServers({**LISTEN, "kvConfigPath": f"{tmp_path}/kv.json"}, {**LISTEN, **store})
    pair.start()
    yield pair
    pair.stop()


def read(port: int | None, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()


def figures(text: str) -> dict[str, float]:
    lines = (line for line in text.splitlines() if line and not line.startswith("#"))
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def use(pair: InProcessServers) -> None:
    """Three messages, one of them consumed, and a producer."""
    letters = {"a": "p", "b": "Watched", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1"}
    send = Frame(310, {**letters, "h": "0", "i": "", "m": "false"}, b"x")
    body = {"clientID": "c", "producerDataSet": [{"groupName": "p"}], "consumerDataSet": []}
    with Probe(pair.broker) as probe:
        assert [probe.call(send).code for _ in range(3)] == [0, 0, 0]
        probe.call(Frame(34, {}, json.dumps(body).encode()))
        fields = {"consumerGroup": "g", "topic": "Watched", "queueId": "0", "commitOffset": "1"}
        probe.call(Frame(15, fields))
        assert until(lambda: _is_dispatched(probe))
        fields |= {"queueOffset": "0", "maxMsgNums": "2", "sysFlag": "4", "subVersion": "0"}
        assert probe.call(Frame(11, {**fields, "suspendTimeoutMillis": "0"})).code == 0


def _is_dispatched(probe: Probe) -> bool:
    return bool(json.loads(probe.call(Frame(28)).body)["table"]["dispatchBehindBytes"] == "0")


def test_refusals_are_counted_by_setting_not_by_name(
    pair: InProcessServers,
) -> None:
    assert pair.server is not None
    use(pair)
    places = {"consumerGroup": "made-up", "topic": "Watched", "queueId": "0", "commitOffset": "1"}
    many = [{"groupName": f"g{number}"} for number in range(1_001)]
    body = {"clientID": "c", "producerDataSet": many, "consumerDataSet": []}
    with Probe(pair.broker) as probe:
        assert probe.call(Frame(15, places)).code == 0
        assert probe.call(Frame(34, {}, json.dumps(body).encode())).code == 1
        _, text = read(pair.server.metrics_port, "/metrics")
    found = {key: value for key, value in figures(text).items() if "bounds_reached" in key}
    assert [value for key, value in found.items() if 'setting="clientGroupMax"' in key] == [1]
    assert "made-up" not in text
    assert 'consumer_group="g"' in text


def test_a_brokers_metrics(pair: InProcessServers) -> None:
    assert pair.server is not None
    with Probe(pair.broker):
        use(pair)
        status, text = read(pair.server.metrics_port, "/metrics")
    assert status == 200
    found = figures(text)

    def row(name: str, *labels: str) -> list[float]:
        wanted = {*COMMON, *labels}
        rows = ((key.partition("{"), value) for key, value in found.items())
        return [
            value
            for (known, _, rest), value in rows
            if known == f"rocketmq_{name}" and wanted <= {*rest.rstrip("}").split(",")}
        ]

    assert row("broker_permission") == [6]
    assert row("messages_in_total", 'topic="Watched"') == [3]
    assert row("messages_out_total", 'topic="Watched"', 'consumer_group="g"') == [2]
    assert row("throughput_out_total", 'topic="Watched"', 'consumer_group="g"')[0] > 100
    assert row("consumer_lag_messages", 'topic="Watched"', 'consumer_group="g"') == [2]
    assert row("requests_total", 'code="310"', 'plane="native"')[0] >= 2
    assert row("processor_watermark", 'processor="send"') == [0]
    assert row("storage_size_bytes")[0] > 0
    assert row("storage_refuses_messages") == [0]
    assert row("pending_acks") == [0]
    assert row("replies_lost_total") == [0]
    used = [row("storage_disk_used_ratio", f'directory="{name}"') for name in DIRECTORIES]
    assert all(0 < ratio <= 1 for (ratio,) in used)


def test_replies_that_wait_and_replies_that_were_lost_are_shown(
    pair: InProcessServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert pair.server is not None
    counters = {"pending_acks": 7, "replies_lost": 2}
    monkeypatch.setattr(pair.server.context, "counters", lambda: counters)
    found = figures(read(pair.server.metrics_port, "/metrics")[1])
    rows = {name.partition("{")[0]: value for name, value in found.items()}
    assert (rows["rocketmq_pending_acks"], rows["rocketmq_replies_lost_total"]) == (7, 2)


def test_producers_are_counted_while_they_are_there(pair: InProcessServers) -> None:
    assert pair.server is not None
    with Probe(pair.broker) as probe:
        body = {"clientID": "c", "producerDataSet": [{"groupName": "p"}], "consumerDataSet": []}
        probe.call(Frame(34, {}, json.dumps(body).encode()))
        text = read(pair.server.metrics_port, "/metrics")[1]
    (line,) = [line for line in text.splitlines() if line.startswith("rocketmq_producer_conn")]
    assert 'language="python"' in line
    assert line.endswith(" 1.0")


def test_probes(pair: InProcessServers) -> None:
    assert pair.server is not None
    port = pair.server.metrics_port
    assert read(port, "/live") == (200, "live\n")
    assert read(port, "/ready") == (200, "ready\n")
    assert read(port, "/elsewhere")[0] == 404
    pair.server.context.accepting = False
    assert read(port, "/ready") == (503, "the broker is stopping\n")


def closed(peer: socket.socket) -> bool:
    """Whether the server closes the connection within a minute."""
    peer.settimeout(60)
    try:
        return peer.recv(1) == b""
    except ConnectionResetError:
        return True


def test_connections_are_bounded_and_those_in_use_are_let_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(http_listener, "CONNECTIONS_MAX", 3)
    listener = health_listener("127.0.0.1:0", list, lambda: None)
    listener.start()
    try:
        address = ("127.0.0.1", listener.port)
        with ExitStack() as held:
            idle = [held.enter_context(socket.create_connection(address)) for _ in range(3)]
            with socket.create_connection(address) as more:
                assert closed(more), "one more is closed at once"
            idle[0].sendall(b"GET /live HTTP/1.0\r\n\r\n")
            assert idle[0].recv(12) == b"HTTP/1.0 200"
        assert until(lambda: _is_live(listener.port)), "there is room again"
    finally:
        listener.stop()


def _is_live(port: int) -> bool:
    try:
        return read(port, "/live") == (200, "live\n")
    except OSError:
        return False


def test_a_connection_that_is_slow_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_listener, "TIMEOUT_S", 0.1)
    listener = health_listener("127.0.0.1:0", list, lambda: None)
    listener.start()
    try:
        with socket.create_connection(("127.0.0.1", listener.port)) as slow:
            slow.sendall(b"GET /live HT")
            assert closed(slow)
    finally:
        listener.stop()


def test_metrics_that_fail_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    def collect() -> list[Any]:
        if asked:
            raise OverflowError("too big")
        return []

    asked: list[int] = []
    listener = health_listener("127.0.0.1:0", collect, lambda: None)
    asked.append(1)
    listener.start()
    try:
        with pytest.raises(OSError):
            read(listener.port, "/metrics")
        assert until(lambda: "an HTTP request of" in caplog.text)
        assert read(listener.port, "/live") == (200, "live\n")
    finally:
        listener.stop()


def test_long_metrics_are_compressed_for_clients_that_accept_it(pair: InProcessServers) -> None:
    assert pair.server is not None
    address = f"http://127.0.0.1:{pair.server.metrics_port}/metrics"
    asked = UrlRequest(address, headers={"Accept-Encoding": "gzip"})
    with urlopen(asked, timeout=60) as answer:
        assert answer.headers["Content-Encoding"] == "gzip"
        assert b"rocketmq_broker_permission" in gzip.decompress(answer.read())


def test_a_name_servers_metrics(pair: InProcessServers) -> None:
    assert pair.names is not None
    assert read(pair.names.metrics_port, "/ready")[0] == 200
    found = figures(read(pair.names.metrics_port, "/metrics")[1])
    assert found["rocketmq_namesrv_topics"] > 0
    pair.names.names.routes.bounds.check_ids("b", "10.0.0.1", 0, 99)
    with pytest.raises(Refused):
        pair.names.names.routes.bounds.check_ids("b", "10.0.0.1", 0, 100)
    found = figures(read(pair.names.metrics_port, "/metrics")[1])
    assert found['rocketmq_namesrv_bounds_reached_total{setting="brokerIdMax"}'] == 1
    assert found["rocketmq_namesrv_connections_refused_total"] == 0
    assert found['rocketmq_namesrv_requests_total{code="103",plane="python"}'] >= 1


@pytest.mark.parametrize(
    ("listen", "address"),
    [("5557", ("127.0.0.1", 5557)), (":1", ("127.0.0.1", 1)), ("[::]:2", ("::", 2))],
)
def test_addresses(listen: str, address: tuple[str, int]) -> None:
    assert address_of(listen) == address


@pytest.mark.parametrize("listen", ["somewhere", "host:", "host:70000", "host:-1"])
def test_a_bad_address_is_refused(listen: str) -> None:
    with pytest.raises(SettingsError, match=r"metricsListen=.*host:port"):
        health_listener(listen, list, lambda: None)


@pytest.mark.parametrize("kind", ["broker", "names"])
def test_a_taken_metrics_port_leaves_nothing_open(tmp_path: Path, kind: str) -> None:
    """The server's own port can be bound again after the failed start, and its store opened."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port, metrics = free_port(), taken.getsockname()[1]
        flags = {**LISTEN, "listenPort": str(port), "metricsListen": f"127.0.0.1:{metrics}"}
        for _ in range(2):
            with pytest.raises(OSError, match="in use"):
                _server(kind, flags, tmp_path).start()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()


def _server(kind: str, flags: dict[str, str], root: Path) -> Broker | NameServer:
    if kind == "names":
        flags = {**flags, "kvConfigPath": f"{root}/kv.json"}
        return NameServer(load(NAMESRV, flags=pairs(flags, "test")))
    flags = {**flags, "storePathRootDir": str(root), "fastPortEnable": "false"}
    return Broker(load(BROKER, flags=pairs(flags, "test")))

"""TLS between Java's clients and servers and ours; each side verifies the other's certificate."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mqclient import Admin, Message, Producer, PushConsumer, TlsConfig
from tests.certificates import Authority, Pair
from tests.interop.clusters import BROKER, NAMESRV, Maker
from tests.interop.conf import SMALL_STORE, write_conf
from tests.interop.java_driver import JavaDriver


class Papers:
    """Certificates of servers and clients, and the file that says so to RocketMQ."""

    def __init__(self, folder: Path) -> None:
        self.authority = Authority(folder)
        self.server = self.authority.issue("server")
        self.client = self.authority.issue("client")
        both = {**self.keys("server", self.server), **self.keys("client", self.client)}
        checks = {
            "tls.test.mode.enable": "false",
            "tls.server.need.client.auth": "require",
            "tls.server.authClient": "true",
            "tls.client.authServer": "true",
        }
        self.file = write_conf(folder / "tls.properties", {**both, **checks})

    def keys(self, side: str, pair: Pair) -> dict[str, object]:
        return {
            f"tls.{side}.certPath": pair.cert,
            f"tls.{side}.keyPath": pair.key,
            f"tls.{side}.trustCertPath": self.authority.ca,
        }

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags for a JVM that accepts TLS only, shows a certificate and checks the peer's."""
        mode = ("-Dtls.enable=true", "-Dtls.server.mode=enforcing")
        return (*mode, f"-Dtls.config.file={self.file}")

    @property
    def tls(self) -> TlsConfig:
        shown = self.client
        return TlsConfig(ca_file=self.authority.ca, cert_file=shown.cert, key_file=shown.key)


@pytest.fixture(scope="module")
def papers(tmp_path_factory: pytest.TempPathFactory) -> Papers:
    return Papers(tmp_path_factory.mktemp("papers"))


class Secured:
    """A NameServer and a broker that accept trusted certificates only, each ours or Java's."""

    def __init__(self, folder: Path, papers: Papers, namesrv: Maker, broker: Maker) -> None:
        told = {
            "java": {"flags": papers.flags},
            "ours": {"settings": {"tls.server.mode": "enforcing", "tls.config.file": papers.file}},
        }
        (folder / "namesrv").mkdir()
        (folder / "broker").mkdir()
        self._stack = ExitStack()
        with ExitStack() as stack:
            names = NAMESRV[namesrv](folder / "namesrv", **told[namesrv])
            stack.callback(names.discard)
            self.namesrv = names.address
            small = {"settings": {**SMALL_STORE, **told[broker].get("settings", {})}}
            served = BROKER[broker](folder / "broker", names.address, **{**told[broker], **small})
            stack.callback(served.discard)
            self.broker = served.address
            self._stack = stack.pop_all()

    def stop(self) -> None:
        self._stack.close()


@pytest.fixture(scope="module", params=[("ours", "ours"), ("ours", "java"), ("java", "ours")],
                ids="-".join)  # fmt: skip
def secured(
    request: pytest.FixtureRequest,
    java: None,
    papers: Papers,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Secured]:
    running = Secured(tmp_path_factory.mktemp("secured"), papers, *request.param)
    yield running
    running.stop()


@pytest.fixture(scope="module")
def driver(
    java: None, papers: Papers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaDriver]:
    running = JavaDriver(tmp_path_factory.mktemp("driver"), flags=papers.flags)
    yield running
    running.stop()


def test_javas_clients(secured: Secured, driver: JavaDriver) -> None:
    where = ["-n", secured.namesrv, "-b", secured.broker]
    printed = driver.admin("updateTopic", *where, "-t", "ByJava")
    assert f"create topic to {secured.broker} success." in printed, printed
    sent = driver.produce(secured.namesrv, "ByJava", 5, body="by java ")
    assert [result["status"] for result in sent] == ["SEND_OK"] * 5
    consumer = driver.consume(secured.namesrv, "g_java", "ByJava")
    consumer.await_bodies({f"by java {number}" for number in range(5)})
    consumer.stop()


def test_our_clients(secured: Secured, papers: Papers) -> None:
    wanted = {b"by us %d" % number for number in range(5)}
    got: set[bytes] = set()
    done = threading.Event()

    def take(messages, _context):  # type: ignore[no-untyped-def]
        got.update(message.body for message in messages)
        if got >= wanted:
            done.set()

    with Producer(secured.namesrv, tls=papers.tls) as producer:
        for body in sorted(wanted):
            producer.send(Message("ByUs", body))
    consumer = PushConsumer("g_us", secured.namesrv, consume_from="earliest", tls=papers.tls)
    with consumer:
        consumer.subscribe("ByUs", "*", take)
        assert done.wait(90), got
    with Admin(secured.namesrv, tls=papers.tls) as admin:
        assert "ByUs" in admin.topics.names()


def test_defaults_meet(java: None, tmp_path: Path) -> None:
    """RocketMQ's defaults: servers show their own certificate, clients trust any certificate."""
    driver_home = tmp_path / "driver"
    driver = JavaDriver(driver_home, flags=("-Dtls.enable=true",))
    try:
        home = tmp_path / "namesrv"
        home.mkdir()
        namesrv = NAMESRV["ours"](home)
        try:
            assert "broker" not in driver.admin("topicList", "-n", namesrv.address)
        finally:
            namesrv.stop()
        home = tmp_path / "java"
        home.mkdir()
        theirs = NAMESRV["java"](home, flags=("-Dtls.server.mode=permissive",))
        try:
            with Admin(theirs.address, tls=TlsConfig(verify="none")) as admin:
                assert "TBW102" not in admin.topics.names()
        finally:
            theirs.discard()
    finally:
        driver.stop()

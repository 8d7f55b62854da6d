"""Brokers behind a NAT with other ports: clients outside reach them at the advertised address."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from scripts.server_process import ServerProcess
from tests.interop.conf import SMALL_STORE, broker_settings, write_conf
from tests.interop.java_driver import JavaDriver
from tests.interop.nat import GATEWAY, INSIDE, Nat, NoNamespaces
from tests.interop.our_servers import ROOT

NAMES, KNOWING, SILENT = 9876, 10911, 10921
OUTER_NAMES, OUTER_KNOWING, OUTER_SILENT = 29876, 20911, 20921
OURS = {f"ours {number}" for number in range(10)}
MAP = f"{INSIDE}:{SILENT}={GATEWAY}:{OUTER_SILENT}"


def start(nat: Nat, home: Path, *words: str) -> ServerProcess:
    home.mkdir(exist_ok=True)
    command = nat.inside(sys.executable, "-m", "mqserver.cli", *words)
    return ServerProcess(command, cwd=home, ready="boot success", env={"PYTHONPATH": str(ROOT)})


def broker(nat: Nat, home: Path, port: int, **advertised: object) -> ServerProcess:
    """A broker inside; `advertised` sets its outside address."""
    name = f"broker-{port}"
    settings = broker_settings(name, f"127.0.0.1:{NAMES}", port, home / "store")
    told = {"bindAddress": "0.0.0.0", "brokerIP1": INSIDE, **advertised}
    home.mkdir()
    conf = write_conf(home / "broker.conf", {**settings, **SMALL_STORE, **told})
    return start(nat, home, "broker", "start", "-c", str(conf))


@pytest.fixture(scope="module")
def nat(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nat]:
    """A NameServer and two brokers inside; only one of them knows how it is reached."""
    folder = tmp_path_factory.mktemp("nat")
    ports = {OUTER_NAMES: NAMES, OUTER_KNOWING: KNOWING, OUTER_SILENT: SILENT}
    with ExitStack() as running:
        try:
            nat = running.enter_context(Nat(ports))
        except NoNamespaces as reason:
            pytest.skip(f"no network of namespaces: {reason}")
        kv = f"kvConfigPath={folder / 'kvConfig.json'}"
        names = start(nat, folder / "names", "namesrv", "start", "--set", kv)
        running.callback(names.kill)
        knowing = broker(
            nat, folder / "knowing", KNOWING, brokerIP1=GATEWAY, advertisedPort=OUTER_KNOWING
        )
        running.callback(knowing.kill)
        silent = broker(nat, folder / "silent", SILENT)
        running.callback(silent.kill)
        yield nat
        for server in (silent, knowing, names):
            assert server.stop() == 0, server.output


def create(nat: Nat, topic: str, port: int) -> None:
    """Create a topic inside, on the broker of that port alone."""
    words = ("-n", f"127.0.0.1:{NAMES}", "-b", f"127.0.0.1:{port}", "-t", topic)
    run(nat.inside(sys.executable, "-m", "mqadmin", "updateTopic", *words))


def run(command: list[str]) -> str:
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=200
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def our_client(nat: Nat, topic: str, map_text: str = "") -> set[str]:
    """The messages that our client outside sent and read back."""
    words = (f"{GATEWAY}:{OUTER_NAMES}", topic, f"group_{topic}", map_text)
    program = (sys.executable, "-m", "tests.interop.nat_client", *words)
    return set(run(nat.outside(*program)).splitlines())


def test_our_client_reaches_a_broker_that_knows_its_address(nat: Nat) -> None:
    create(nat, "NatKnown", KNOWING)
    assert our_client(nat, "NatKnown") == OURS


def test_our_client_is_told_the_way_by_an_address_map(nat: Nat) -> None:
    create(nat, "NatMapped", SILENT)
    assert our_client(nat, "NatMapped", MAP) == OURS


def test_without_a_map_the_error_says_what_was_advertised(nat: Nat) -> None:
    create(nat, "NatUnmapped", SILENT)
    with pytest.raises(AssertionError, match=f"{INSIDE}:{SILENT}"):
        our_client(nat, "NatUnmapped")


def test_the_java_client_reaches_it_too(java: None, nat: Nat, tmp_path: Path) -> None:
    create(nat, "NatJava", KNOWING)
    driver = JavaDriver(tmp_path / "java", prefix=nat.outside())
    try:
        namesrv = f"{GATEWAY}:{OUTER_NAMES}"
        results = driver.produce(namesrv, "NatJava", 10)
        assert [result["status"] for result in results] == ["SEND_OK"] * 10
        consumer = driver.consume(namesrv, "group_NatJava", "NatJava")
        consumer.await_bodies({f"Hello RocketMQ {number}" for number in range(10)})
        consumer.stop()
    finally:
        driver.kill()

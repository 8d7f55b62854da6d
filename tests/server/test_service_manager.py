"""What a service manager hears of a server, and the variable with the advertised address."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqserver.commands.broker import load_broker
from mqserver.commands.main import standalone
from mqserver.embedded.testing import free_port
from mqserver.registration.advertised import ENVIRONMENT
from mqserver.runtime.service_manager import READY, STOPPING, notify
from scripts.server_process import ServerProcess
from tests.server.raw import DEADLINE
from tests.server.server_commands import COMMANDS, server_command


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[socket.socket]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(DEADLINE)
        yield manager


@pytest.mark.parametrize("command", COMMANDS)
def test_it_hears_when_a_server_is_ready_and_stops(
    command: str, manager: socket.socket, tmp_path: Path
):
    run = server_command(command, tmp_path, free_port())
    environment = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    process = ServerProcess(run, cwd=tmp_path, ready="boot success", env=environment)
    try:
        assert manager.recv(100) == b"READY=1"
        process.stop()
        assert manager.recv(100) == b"STOPPING=1"
    finally:
        process.kill()


def test_an_abstract_socket(monkeypatch: pytest.MonkeyPatch):
    name = f"mqstack-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0{name}")
        manager.settimeout(DEADLINE)
        monkeypatch.setenv("NOTIFY_SOCKET", f"@{name}")
        notify(READY)
        assert manager.recv(100) == b"READY=1"


def test_a_manager_that_is_away_is_a_warning(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "nobody"))
    with caplog.at_level(logging.WARNING, "mqserver"):
        notify(STOPPING)
    (record,) = caplog.records
    assert "STOPPING=1" in record.getMessage()
    assert str(tmp_path / "nobody") in record.getMessage()


@pytest.mark.parametrize(
    ("address", "keys"),
    [
        ("mq.example", {"brokerIP1": "mq.example"}),
        ("203.0.113.9:30911", {"brokerIP1": "203.0.113.9", "advertisedPort": "30911"}),
    ],
)
def test_the_variable_with_the_advertised_address(
    monkeypatch: pytest.MonkeyPatch, address: str, keys: dict[str, str]
):
    monkeypatch.setenv(ENVIRONMENT, address)
    loaded = load_broker(None, None, {})
    assert {key: str(loaded.values[key]) for key in keys} == keys
    assert all(loaded.origins[key] == "environment MQSTACK_ADVERTISE" for key in keys)
    assert load_broker(None, None, {"brokerIP1": "192.0.2.1"}).values["brokerIP1"] == "192.0.2.1"


def test_standalone_takes_the_same_variable():
    (advertise,) = (option for option in standalone.params if option.name == "advertise")
    assert advertise.envvar == ENVIRONMENT

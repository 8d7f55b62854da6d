"""The broker address that clients get: its source, and the warnings about it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mqserver.embedded.testing import free_port
from mqserver.registration import advertised as addresses
from mqserver.registration.advertised import advertised

SEVERAL = ["192.0.2.7", "198.51.100.7"]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """A machine with one address, no container."""
    monkeypatch.setattr(addresses, "interface_addresses", lambda: SEVERAL[:1])
    monkeypatch.setattr(addresses, "outgoing_address", lambda: SEVERAL[0])
    monkeypatch.setattr(addresses, "_CONTAINER_MARKS", ())
    return monkeypatch


@pytest.mark.parametrize(
    ("broker_ip1", "bind", "told", "origin"),
    [
        ("", "0.0.0.0", "192.0.2.7", "the interface"),
        ("203.0.113.9", "0.0.0.0", "203.0.113.9", "brokerIP1"),
        ("localhost", "127.0.0.1", "localhost", "brokerIP1"),
        ("", "127.0.0.1", "127.0.0.1", "bindAddress"),
    ],
)
def test_where_it_came_from(
    machine: pytest.MonkeyPatch, broker_ip1: str, bind: str, told: str, origin: str
) -> None:
    found = advertised(broker_ip1, bind)
    assert (found.host, found.origin, found.warnings) == (told, origin, ())
    assert found.ip == ("127.0.0.1" if told == "localhost" else told)


def test_one_of_several_is_a_warning(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(addresses, "interface_addresses", lambda: SEVERAL)
    (warning,) = advertised("", "0.0.0.0").warnings
    assert warning == (
        "192.0.2.7 is one of several addresses (also 198.51.100.7); "
        "set brokerIP1 or MQSTACK_ADVERTISE to the address that clients can reach"
    )


def test_loopback_while_listening_on_all_is_a_warning(machine: pytest.MonkeyPatch) -> None:
    (warning,) = advertised("127.0.0.1", "0.0.0.0").warnings
    assert "clients on other machines will be told 127.0.0.1, their own loopback" in warning
    assert advertised("127.0.0.1", "127.0.0.1").warnings == ()


def test_a_containers_own_address_is_a_warning(machine: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / ".dockerenv").touch()
    machine.setattr(addresses, "_CONTAINER_MARKS", (tmp_path / ".dockerenv",))
    machine.setattr(addresses, "outgoing_address", lambda: "172.17.0.2")
    (warning,) = advertised("", "0.0.0.0").warnings
    assert warning.startswith("172.17.0.2 is the private address of a container; set brokerIP1")


def test_a_machine_without_a_network_has_its_loopback(machine: pytest.MonkeyPatch) -> None:
    machine.setattr(addresses, "outgoing_address", lambda: None)
    machine.setattr(addresses, "interface_addresses", list)
    found = advertised("", "0.0.0.0")
    assert found.ip == "127.0.0.1" and len(found.warnings) == 1


def test_the_boot_lines_say_what_clients_are_told(tmp_path: Path) -> None:
    port = free_port()
    settings = [f"listenPort={port}", "brokerIP1=127.0.0.1", "advertisedPort=31234"]
    settings += [f"storePathRootDir={tmp_path / 'store'}", "brokerName=b", "fastPortEnable=false"]
    settings += ["minFreeBytes=1048576", "mappedFileSizeCommitLog=1048576"]
    command = [sys.executable, "-m", "mqserver.cli", "broker", "start"]
    for setting in settings:
        command += ["--set", setting]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert server.stdout is not None
    lines = [server.stdout.readline() for _ in range(3)]
    server.send_signal(signal.SIGTERM)
    _, errors = server.communicate(timeout=60)
    assert lines[0].startswith("The broker[b, 127.0.0.1:31234] boot success. serializeType=JSON")
    assert lines[1] == "clients will be told 127.0.0.1:31234 (from: brokerIP1)\n"
    assert re.fullmatch(r"store: .*/store \(\d+\.\d GiB free\)\n", lines[2])
    assert "clients on other machines will be told 127.0.0.1" in errors


def test_loopback_in_a_container_is_for_clients_inside(
    machine: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    machine.setattr(addresses, "_CONTAINER_MARKS", (str(tmp_path),))
    assert advertised("127.0.0.1", "127.0.0.1").warnings == ()

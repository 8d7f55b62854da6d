"""Ports for servers under test: given out once, and free with their neighbours."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from mqserver.embedded import testing
from mqserver.embedded.testing import free_port, free_port_triple


def test_a_free_port_is_given_once_and_no_connection_takes_it() -> None:
    with ThreadPoolExecutor(8) as threads:
        ports = list(threads.map(lambda _: free_port(), range(200)))
    assert len({*ports}) == 200
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(ports) + 1 < ephemeral


def test_one_with_a_neighbour_that_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(testing, "_places", iter([first := free_port(), second := free_port()]))
    with socket.create_server(("127.0.0.1", first - 2)):
        assert free_port_triple() == second


def test_it_may_be_bound() -> None:
    port = free_port()
    for one in (port - 2, port, port + 1):
        socket.create_server(("127.0.0.1", one)).close()

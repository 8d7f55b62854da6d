"""Ports for servers under test: given out once, and free with their neighbours."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mqserver.embedded.testing import FreePorts, free_port


def test_a_free_port_is_given_once_and_no_connection_takes_it() -> None:
    with ThreadPoolExecutor(8) as threads:
        ports = list(threads.map(lambda _: free_port(), range(200)))
    assert len({*ports}) == 200
    ephemeral = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert max(ports) + 1 < ephemeral


def test_one_with_a_neighbour_that_is_taken_is_passed_over() -> None:
    start = free_port()
    first = FreePorts(0, 1, start).take("127.0.0.1")
    for neighbour in (first - 2, first, first + 1):
        with socket.create_server(("127.0.0.1", neighbour)):
            assert FreePorts(0, 1, start).take("127.0.0.1") not in (first - 4, first)


def test_workers_have_ports_of_their_own() -> None:
    ports = [FreePorts(worker, 4, 0).take("127.0.0.1") for worker in range(4)]
    assert len({port // 3_000 for port in ports}) == 4


def test_it_may_be_bound() -> None:
    port = free_port()
    for one in (port - 2, port, port + 1):
        socket.create_server(("127.0.0.1", one)).close()

"""Incomplete frames: the memory that they take, and the order in which they are dropped."""

from __future__ import annotations

import pytest

from mqserver.runtime.listener import Listener
from mqserver.runtime.processor_api import Response
from tests.server.conftest import Servers
from tests.server.raw import Raw, json_frame
from tests.waiting import until

FRAME_BYTES_MAX = 64 << 10
LIMIT = 256 << 10
FRAME = json_frame(1, 7, body=bytes(60_000))
HALF = FRAME[:30_000]
CLIENTS = 40
"""Their halves are more than four times the limit."""


def _await_read(listener: Listener, expected: int) -> None:
    assert _await_counter(listener, "bytes_in", expected), listener.counters()


def _await_counter(listener: Listener, name: str, expected: int) -> bool:
    return until(lambda: listener.counters().get(name, 0) == expected)


@pytest.fixture
def crowded(servers: Servers) -> tuple[Listener, int, list[Raw]]:
    """A server with half a frame from each of many clients, sent one after the other."""
    settings = {"max_frame_bytes": FRAME_BYTES_MAX, "max_unfinished_bytes": LIMIT}
    listener, port = servers.start({1: lambda _: Response()}, **settings)
    clients = []
    for count in range(1, CLIENTS + 1):
        raw = servers.connect(port)
        raw.send(HALF)
        _await_read(listener, count * len(HALF))
        clients.append(raw)
    return listener, port, clients


def test_halves_of_frames_take_no_more_than_the_limit(
    crowded: tuple[Listener, int, list[Raw]],
) -> None:
    listener, _, clients = crowded
    assert until(lambda: listener.counters()["unfinished_bytes"] <= LIMIT)
    least = CLIENTS * len(HALF) - LIMIT
    assert until(lambda: listener.counters()["frames_given_up"] * len(HALF) >= least)
    given_up = listener.counters()["frames_given_up"]
    assert all(raw.is_closed() for raw in clients[: given_up // 2])


def test_who_began_last_is_served_and_who_is_quick_as_well(
    crowded: tuple[Listener, int, list[Raw]], servers: Servers
) -> None:
    _, port, clients = crowded
    clients[-1].send(FRAME[len(HALF) :])
    assert clients[-1].read()[:2] == (0, 7)
    fresh = servers.connect(port)
    for _ in range(3):
        fresh.send(HALF)
        fresh.send(FRAME[len(HALF) :])
        assert fresh.read()[:2] == (0, 7)
    event = servers.wait_event("bad_frame")
    assert event.detail == "its incomplete frame was dropped to make room for other frames"


def test_a_frame_of_the_largest_size_always_fits(servers: Servers) -> None:
    settings = {"max_frame_bytes": FRAME_BYTES_MAX, "max_unfinished_bytes": 1}
    listener, port = servers.start({1: lambda _: Response()}, **settings)
    raw = servers.connect(port)
    raw.send(FRAME[:-1])
    _await_read(listener, len(FRAME) - 1)
    raw.send(FRAME[-1:])
    assert raw.read()[:2] == (0, 7)
    # The answer may arrive before the connection has updated its counters.
    assert _await_counter(listener, "unfinished_bytes", 0)


def test_what_a_client_leaves_unfinished_goes_with_it(servers: Servers) -> None:
    listener, port = servers.start({1: lambda _: Response()})
    raw, other = servers.connect(port), servers.connect(port)
    raw.send(HALF)
    _await_read(listener, len(HALF))
    raw.close()
    assert _await_counter(listener, "connections", 1)
    assert _await_counter(listener, "unfinished_bytes", 0)
    assert other.ask(json_frame(1, 2))[:2] == (0, 2)

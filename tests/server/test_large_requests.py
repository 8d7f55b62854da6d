"""Requests over 1 MiB share one budget. One that finds no room waits, and others are served."""

from __future__ import annotations

import threading

import pytest

from mqserver.runtime.listener import Listener
from mqserver.runtime.processor_api import Response
from tests.server.conftest import Servers
from tests.server.raw import DEADLINE, json_frame
from tests.waiting import until

FRAME_BYTES_MAX = 3 << 20
LARGE = json_frame(1, 7, body=bytes(5 << 19))
"""2.5 MiB: the budget of 8 MiB has room for three."""
BUDGET = 8 << 20


class Held:
    """A processor that answers nothing until `go` is set."""

    def __init__(self) -> None:
        self.taken = threading.Semaphore(0)
        self.go = threading.Event()

    def __call__(self, request):
        self.taken.release()
        assert self.go.wait(DEADLINE)
        return Response()

    def wait(self, count: int) -> None:
        for _ in range(count):
            assert self.taken.acquire(timeout=DEADLINE)


@pytest.fixture
def held(servers: Servers) -> tuple[Held, Listener, int]:
    processor = Held()
    listener, port = servers.start(
        {1: processor, 2: lambda _: Response()},
        threads=8,
        max_frame_bytes=FRAME_BYTES_MAX,
        max_large_bytes=BUDGET,
    )
    return processor, listener, port


def large_bytes(listener: Listener) -> int:
    return listener.counters()["large_request_bytes"]


def test_one_that_finds_no_room_is_served_once_there_is_some(held, servers: Servers):
    processor, listener, port = held
    clients = [servers.connect(port) for _ in range(6)]
    senders = [threading.Thread(target=client.send, args=(LARGE,)) for client in clients]
    for sender in senders:
        sender.start()
    processor.wait(3)
    assert until(lambda: large_bytes(listener) > 3 * len(LARGE) - 4_096)
    assert servers.connect(port).ask(json_frame(2, 1)).code == 0  # small ones need no room
    assert not processor.taken.acquire(blocking=False)
    assert large_bytes(listener) <= BUDGET
    assert listener.counters()["python.1"] == 3
    processor.go.set()
    assert [client.read()[:2] for client in clients] == [(0, 7)] * 6
    for sender in senders:
        sender.join()
    assert until(lambda: large_bytes(listener) == 0)


def test_one_connection_leaves_room_for_others(held, servers: Servers):
    processor, listener, port = held
    greedy, other = servers.connect(port), servers.connect(port)
    sender = threading.Thread(target=greedy.send, args=(LARGE, LARGE, LARGE, LARGE))
    sender.start()
    processor.wait(1)
    other.send(LARGE)
    processor.wait(1)
    assert listener.counters()["python.1"] == 2, "one of each"
    processor.go.set()
    assert other.read()[:2] == (0, 7)
    assert [greedy.read()[:2] for _ in range(4)] == [(0, 7)] * 4
    sender.join()


def test_who_leaves_while_it_waits_or_holds_leaves_its_room(held, servers: Servers):
    processor, listener, port = held
    holders = [servers.connect(port) for _ in range(3)]
    for holder in holders:
        holder.send(LARGE)
    processor.wait(3)
    waiting = servers.connect(port)
    waiting.send(LARGE[: 64 << 10])
    half = servers.connect(port)
    half.send(LARGE[: 64 << 10])
    for one in (waiting, half, *holders):
        one.close()
    processor.go.set()
    assert until(lambda: large_bytes(listener) == 0)
    assert servers.connect(port).ask(LARGE)[:2] == (0, 7)


def test_one_that_stalls_gives_way_to_those_that_wait(held, servers: Servers):
    processor, listener, port = held
    processor.go.set()
    stalled = [servers.connect(port) for _ in range(3)]
    for one in stalled:
        one.send(LARGE[: 64 << 10])
    assert until(lambda: large_bytes(listener) > 3 * len(LARGE) - 4_096)
    assert servers.connect(port).ask(LARGE)[:2] == (0, 7)
    detail = servers.wait_event("bad_frame").detail
    assert "came too slowly while others waited for its room" in detail

"""Frames that come too slowly: the time from first byte to last, and the least rate."""

from __future__ import annotations

import ssl
import threading
import time

import pytest

from mqserver.runtime.processor_api import Response
from tests.server.conftest import Servers
from tests.server.raw import DEADLINE, json_frame
from tests.server.test_tls import authority, secured, tls_of
from tests.waiting import until

__all__ = ["authority"]

FRAME = json_frame(1, 7, body=bytes(60_000))
HALF = FRAME[:30_000]


def echo(request):
    return Response(0, None, None, request.body)


@pytest.mark.parametrize("under_tls", [False, True])
def test_a_frame_that_stops_closes_its_connection_in_time(servers: Servers, authority, under_tls):
    settings = {"frame_timeout": 1.0, "min_frame_rate": 0, "tls": tls_of(authority)}
    listener, port = servers.start({1: echo}, **settings)
    if under_tls:
        with secured(port, authority.context()) as raw:
            seconds = until_closed(raw)
    else:
        seconds = until_closed(servers.connect(port))
    assert seconds >= 0.99, "the deadline begins before the clock of the test"
    assert servers.wait_event("bad_frame").detail == "a frame was not complete after 1 s"
    assert listener.counters()["frames_bad"] == 1


def until_closed(raw) -> float:
    assert raw.ask(json_frame(1, 1)).code == 0
    began = time.monotonic()
    raw.send(HALF)
    assert raw.is_closed()
    return time.monotonic() - began


def test_a_trickling_frame_is_closed_after_a_third_of_the_time(servers: Servers):
    settings = {"frame_timeout": 3.0, "min_frame_rate": 1_000}
    listener, port = servers.start({1: echo}, **settings)
    slow = servers.connect(port)
    slow.send(FRAME[:100])
    assert slow.is_closed()
    detail = servers.wait_event("bad_frame").detail
    assert detail.startswith("a frame came slower than 1000 bytes a second: 100 bytes in ")
    quick = servers.connect(port)
    quick.send(HALF)
    quick.send(FRAME[len(HALF) :])
    assert quick.read()[:2] == (0, 7)
    assert listener.counters()["frames_bad"] == 1


def test_time_in_which_the_server_does_not_read_does_not_count(servers: Servers):
    """A client that takes no answers is not read: that is no fault of the frame it is sending."""
    listener, port = servers.start({1: echo}, frame_timeout=1.0, min_frame_rate=0)
    greedy = servers.connect(port)
    large = json_frame(1, 3, body=bytes(3 << 20))
    # More than the sockets hold: the server owes over 1 MiB and reads no further.
    sender = threading.Thread(target=greedy.send, args=[large] * 5 + [HALF])
    sender.start()
    assert until(lambda: listener.counters()["unfinished_bytes"] > 0)
    clocks = 0
    while clocks < 3:  # each of them takes as long as a frame may
        clock = servers.connect(port)
        clock.send(HALF)
        assert clock.is_closed()
        clocks += 1
    assert listener.counters()["frames_bad"] == clocks
    for _ in range(5):
        assert greedy.read().opaque == 3
    sender.join(DEADLINE)
    greedy.send(FRAME[len(HALF) :])
    assert greedy.read()[:2] == (0, 7)


def test_a_tls_record_that_stops_closes_its_connection(servers: Servers, authority):
    """An incomplete TLS record belongs to no frame yet, so it gets the time of a frame."""
    settings = {"frame_timeout": 1.0, "min_frame_rate": 0, "tls": tls_of(authority)}
    _, port = servers.start({1: echo}, **settings)
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = authority.context().wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    raw = servers.connect(port)
    while True:
        try:
            session.do_handshake()
            break
        except ssl.SSLWantReadError:
            raw.socket.sendall(outgoing.read())
            incoming.write(raw.socket.recv(65_536))
    raw.socket.sendall(outgoing.read())
    for _ in range(2):  # an idle connection stays: this one outlives two others
        other = servers.connect(port)
        other.send(HALF)
        assert other.is_closed()
    session.write(FRAME)
    record = outgoing.read()
    raw.socket.sendall(record[:1_000])
    while raw.socket.recv(65_536):
        pass

    def details() -> list[str]:
        return [event.detail for event in servers.events if event.kind == "bad_frame"]

    assert until(lambda: details() == ["a frame was not complete after 1 s"] * 3)

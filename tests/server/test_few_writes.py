"""How many pieces answers come in: the segments that the system counts on a client's socket."""

from __future__ import annotations

import socket
import struct
import sys

import pytest

from tests.server.native import Broker, send_fields
from tests.server.raw import Raw, json_frame

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tcp_info is Linux's")

REQUESTS = 64
DATA_SEGS_IN = 152
"""Where Linux's tcp_info has how many segments with data came."""


def segments(raw: Raw) -> int:
    """Segments with data so far: without Nagle's algorithm each write is one at least."""
    info = raw.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(info) < DATA_SEGS_IN + 4:
        pytest.skip("this kernel counts no segments")
    (count,) = struct.unpack_from("=I", info, DATA_SEGS_IN)
    return int(count)


def test_sends_that_come_together_are_answered_together(broker: Broker) -> None:
    broker.send(b"first")  # nothing is left to be made
    before = segments(broker.raw)
    frames = [json_frame(310, opaque, send_fields(), b"x") for opaque in range(REQUESTS)]
    broker.raw.send(*frames)
    replies = [broker.raw.read() for _ in frames]
    assert [(reply.code, reply.opaque) for reply in replies] == [(0, n) for n in range(REQUESTS)]
    # 4 KiB are read at first, then twice as much each time: few reads, and a write for each.
    assert segments(broker.raw) - before <= REQUESTS // 4

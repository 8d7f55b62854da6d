"""How many pieces answers come in: the segments that the system counts on a client's socket."""

from __future__ import annotations

import socket
import struct
import sys

import pytest

from tests.server.conftest import Servers
from tests.server.native import Broker, send_fields
from tests.server.raw import Raw, binary_frame, json_frame

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="tcp_info is Linux's")

FIRST_READ_BYTES = 4 << 10
"""Buffer of a new connection's first read; it doubles after each read that filled it."""
DATA_SEGS_IN = 152
"""Where Linux's tcp_info has how many segments with data came."""


def segments(raw: Raw) -> int:
    """Segments with data so far: without Nagle's algorithm each write is one at least."""
    info = raw.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    if len(info) < DATA_SEGS_IN + 4:
        pytest.skip("this kernel counts no segments")
    (count,) = struct.unpack_from("=I", info, DATA_SEGS_IN)
    return int(count)


def reads(size_bytes: int) -> int:
    """The number of reads for `size_bytes` that have all arrived."""
    count, room = 1, FIRST_READ_BYTES
    while size_bytes > room:
        count, size_bytes, room = count + 1, size_bytes - room, 2 * room
    return count


@pytest.mark.parametrize(
    ("frame", "count", "writes"),
    [(json_frame, 12, 1), (binary_frame, 24, 1), (json_frame, 64, 3), (binary_frame, 64, 2)],
)
def test_what_is_read_at_once_is_answered_with_one_write(
    broker: Broker, servers: Servers, frame, count: int, writes: int
) -> None:
    """Exact, as long as only the two ends split or join writes on loopback: one
    write of less than 32 KiB is one segment, and arrives whole before its writer continues. So
    the number of reads follows from the number of bytes, however busy the machine is. Only two
    writes may become one segment, when the second comes before the first has left.
    """
    for _ in range(10):  # each connection begins with the smallest read
        raw = servers.connect(broker.port)
        broker.send(b"first", raw)  # nothing is left to be made
        before = segments(raw)
        requests = [frame(310, opaque, send_fields(), b"x") for opaque in range(count)]
        assert reads(len(b"".join(requests))) == writes
        raw.send(*requests)
        replies = [raw.read() for _ in requests]
        assert [(reply.code, reply.opaque) for reply in replies] == [(0, n) for n in range(count)]
        assert 1 <= segments(raw) - before <= writes

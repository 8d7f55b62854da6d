"""Floods of bytes that never become valid requests: each takes a port and returns its counts."""

from __future__ import annotations

import selectors
import socket
import ssl
import struct
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

from tests.server.raw import Raw, json_frame

KEYS_MAX = 1_000_000
BOMB_BYTES = 256 << 20


def keys_header(keys: int) -> bytes:
    """A frame whose header has `keys` small fields: 12 MB for a million."""
    fields = ",".join(f'"k{number}":""' for number in range(keys))
    header = f'{{"code":10,"opaque":1,"extFields":{{{fields}}}}}'.encode()
    return struct.pack(">ii", 4 + len(header), len(header)) + header


def bomb(size: int = BOMB_BYTES) -> bytes:
    """A compressed registration that would grow to `size` bytes."""
    packer = zlib.compressobj(9)
    piece = bytes(1 << 20)
    packed = b"".join(packer.compress(piece) for _ in range(size >> 20))
    fields = {
        "brokerName": "b", "brokerAddr": "127.0.0.1:1", "clusterName": "c", "haServerAddr": "",
        "brokerId": "0", "compressed": "true",
    }  # fmt: skip
    return json_frame(103, 1, fields, packed + packer.flush())


def send_all(raw: Raw, frame: bytes) -> bool:
    """Send a frame and wait for an answer or the end; whether the server took it."""
    try:
        raw.send(frame)
        raw.read()
    except ConnectionError:
        return False
    return True


@contextmanager
def connected(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Open `count` connections; the sockets that the server refused are closed."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(socket.create_connection(("127.0.0.1", port), 30))
            for _ in range(count)
        ]


def drip(sockets: list[socket.socket], frame: bytes, pause_s: float, timeout_s: float) -> float:
    """Send `frame` on all of them, a byte at a time, until the server has closed all; how long
    that took, seconds.
    """
    began = time.monotonic()
    left = dict.fromkeys(sockets, 5)
    for one in left:
        one.sendall(frame[:5])
    while left and time.monotonic() - began < timeout_s:
        time.sleep(pause_s)
        for one, at in list(left.items()):
            try:
                one.send(frame[at : at + 1], socket.MSG_DONTWAIT)
                left[one] = at + 1
            except BlockingIOError:
                pass
            except OSError:
                del left[one]
    assert not left, f"{len(left)} connections are still open"
    return time.monotonic() - began


def closed(sockets: list[socket.socket], timeout_s: float) -> int:
    """Wait until the server has closed all of them, or for that long; how many it closed."""
    waiting = selectors.DefaultSelector()
    for one in sockets:
        waiting.register(one, selectors.EVENT_READ)
    count, until = 0, time.monotonic() + timeout_s
    while count < len(sockets) and (left := until - time.monotonic()) > 0:
        for key, _ in waiting.select(left):
            waiting.unregister(key.fileobj)
            count += 1
    return count


def hello_start() -> bytes:
    """The first half of a client's TLS handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    session = context.wrap_bio(incoming, outgoing)
    with suppress(ssl.SSLWantReadError):
        session.do_handshake()
    hello = outgoing.read()
    return hello[: len(hello) // 2]


def greet(port: int) -> float:
    """Complete a TLS handshake and send a request; seconds until the answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    began = time.monotonic()
    plain = socket.create_connection(("127.0.0.1", port), 30)
    with context.wrap_socket(plain) as wrapped:
        assert Raw.over(wrapped).ask(json_frame(105, 1, {"topic": "none"})).code != 0
    return time.monotonic() - began

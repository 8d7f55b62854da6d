"""A blocking connection that sends one request at a time: for tests, and for `Standalone`."""

from __future__ import annotations

import itertools
import socket
import ssl
import struct
from typing import Self

from mqcommon.wire.frame import Frame, decode, encode

_opaque = itertools.count(1)


class Probe:
    """A blocking connection to a NameServer or broker; a context manager.

    address: "host:port". timeout: seconds for the connection and for each answer. tls: use TLS
    without checking the certificate, which is safe for your own servers on this machine only.
    """

    def __init__(self, address: str, timeout: float = 30.0, *, tls: bool = False) -> None:
        host, _, port = address.rpartition(":")
        self._socket = socket.create_connection((host.strip("[]"), int(port)), timeout)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls:
            self._socket = _under_tls(self._socket)
        self.pushed: list[Frame] = []

    def call(self, request: Frame) -> Frame:
        """Send a request and wait for its reply; frames that the server sends meanwhile go to
        `pushed`.

        Raises TimeoutError, and ConnectionError when the server closes the connection.
        """
        request.opaque = next(_opaque)
        self.write(encode(request))
        while True:
            frame = self.read()
            if frame.is_response and frame.opaque == request.opaque:
                return frame
            self.pushed.append(frame)

    def write(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def read(self) -> Frame:
        """Wait for one frame."""
        length = self._take(4)
        (size,) = struct.unpack(">i", length)
        return decode(length + self._take(size))

    def _take(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self._socket.recv(size - len(data))
            if not piece:
                raise ConnectionError("the server closed the connection")
            data += piece
        return bytes(data)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()


def _under_tls(plain: socket.socket) -> socket.socket:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context.wrap_socket(plain)


def ask(address: str, request: Frame, timeout: float = 30.0) -> Frame:
    """Send one request on a connection of its own."""
    with Probe(address, timeout) as probe:
        return probe.call(request)

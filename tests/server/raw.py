"""A socket and frames by hand, for valid requests and for bytes that no client sends."""

from __future__ import annotations

import json
import select
import socket
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

DEADLINE = 60.0
"""Seconds until a test that waits for bytes fails."""


class Reply(NamedTuple):
    """A frame as a client sees it."""

    code: int
    opaque: int
    flag: int
    remark: str | None
    fields: dict[str, str] | None
    body: bytes
    serialize: int


def json_frame(
    code: int,
    opaque: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    flag: int = 0,
    **more: Any,
) -> bytes:
    """A frame with a JSON header."""
    header: dict[str, Any] = {"code": code, "flag": flag, "language": "JAVA", "opaque": opaque}
    header |= {"serializeTypeCurrentRPC": "JSON", "version": 407} | more
    if fields is not None:
        header["extFields"] = dict(fields)
    text = json.dumps(header).encode()
    return struct.pack(">ii", 4 + len(text) + len(body), len(text)) + text + body


def binary_frame(
    code: int,
    opaque: int,
    fields: Mapping[str, str] | None = None,
    body: bytes = b"",
    *,
    flag: int = 0,
) -> bytes:
    """A frame with RocketMQ's binary header."""
    ext = b""
    for name, value in (fields or {}).items():
        ext += struct.pack(">h", len(name)) + name.encode()
        ext += struct.pack(">i", len(value.encode())) + value.encode()
    header = struct.pack(">hbhiiii", code, 0, 407, opaque, flag, 0, len(ext)) + ext
    return struct.pack(">ii", 4 + len(header) + len(body), 1 << 24 | len(header)) + header + body


def decode(frame: bytes) -> Reply:
    """Read a frame without its length word."""
    (word,) = struct.unpack(">i", frame[:4])
    header, body = frame[4 : 4 + (word & 0xFFFFFF)], frame[4 + (word & 0xFFFFFF) :]
    if word >> 24 == 0:
        head = json.loads(header)
        remark, fields = head.get("remark"), head.get("extFields")
        return Reply(head["code"], head["opaque"], head["flag"], remark, fields, body, 0)
    code, _, _, opaque, flag, size = struct.unpack(">hbhiii", header[:17])
    remark = header[17 : 17 + size].decode() or None
    at, fields = 17 + size + 4, {}
    while at < len(header):
        (size,) = struct.unpack(">h", header[at : at + 2])
        name, at = header[at + 2 : at + 2 + size].decode(), at + 2 + size
        (size,) = struct.unpack(">i", header[at : at + 4])
        fields[name], at = header[at + 4 : at + 4 + size].decode(), at + 4 + size
    return Reply(code, opaque, flag, remark, fields or None, body, 1)


class Raw:
    """A connected socket."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=DEADLINE)

    @classmethod
    def over(cls, connected: socket.socket) -> Self:
        """Wrap a socket that the caller connected and closes."""
        raw = cls.__new__(cls)
        raw.socket = connected
        return raw

    def send(self, *frames: bytes) -> None:
        """Write the frames in one piece."""
        self.socket.sendall(b"".join(frames))

    def read(self) -> Reply:
        """The next frame."""
        (length,) = struct.unpack(">i", self._exactly(4))
        return decode(self._exactly(length))

    def ask(self, frame: bytes) -> Reply:
        """Send one request, read one frame."""
        self.send(frame)
        return self.read()

    def is_closed(self) -> bool:
        """Wait until the server closes; False if it says something instead."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def is_writable(self, seconds: float = 0.5) -> bool:
        """Whether the socket takes bytes, at once or in a while."""
        return bool(select.select([], [self.socket], [], seconds)[1])

    def _exactly(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = self.socket.recv(size - len(data))
            if not piece:
                raise ConnectionError(f"closed after {len(data)} of {size} bytes")
            data += piece
        return bytes(data)

    def close(self) -> None:
        """Close the socket."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

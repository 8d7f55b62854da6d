"""A broker on a real socket that takes every send and keeps its frame."""

from __future__ import annotations

import socket
import struct
import threading

from mqcommon.wire.frame import Frame, decode, encode


class RecordingBroker:
    """Answers each request with success and queue offset 0; use it as a context manager."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.frames: list[Frame] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)

    def __enter__(self) -> RecordingBroker:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as stream:
            while head := stream.read(4):
                frame = decode(head + stream.read(*struct.unpack(">i", head)))
                self.frames.append(frame)
                reply = frame.reply(0)
                reply.fields = {"msgId": "", "queueId": "0", "queueOffset": "0"}
                connection.sendall(encode(reply))

"""Loads for NameServers: registrations and route requests."""

from __future__ import annotations

import random
import selectors
import socket
import struct
import time
from collections import deque
from contextlib import ExitStack
from itertools import count
from zlib import crc32

from mqcommon.wire.bodies.topics import RegisterBrokerBody, TopicConfigSerializeWrapper
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqcommon.wire.headers.namesrv import RegisterBrokerRequestHeader
from mqserver.embedded.raw_client import Probe

CONNECTIONS, WINDOW = 4, 32
"""Number of connections of a load, and requests in flight on each."""
RECEIVE_BYTES = 1 << 18
SILENCE_SECONDS_MAX = 10.0


def registration(
    number: int, wrapper: TopicConfigSerializeWrapper, address: str | None = None
) -> Frame:
    """The registration request of broker `number`. address: where it listens, default nowhere."""
    body = RegisterBrokerBody(wrapper).encode()
    header = RegisterBrokerRequestHeader(
        broker_name=f"broker-{number:03}",
        broker_addr=address or f"192.0.2.{number}:10911",
        cluster_name="DefaultCluster",
        ha_server_addr=f"192.0.2.{number}:10912",
        broker_id=0,
        body_crc32=crc32(body) & 0x7FFFFFFF,
    )
    return Frame(int(RequestCode.REGISTER_BROKER), header.to_fields(), body)


def tell(probe: Probe, frame: Frame) -> None:
    """Send a registration; raises RuntimeError if the NameServer refuses it."""
    reply = probe.call(frame)
    if reply.code:
        raise RuntimeError(f"code {reply.code}: {reply.remark}")


def ask(
    namesrv: str,
    frames: list[bytes],
    seconds: float,
    connections: int = CONNECTIONS,
    window: int = WINDOW,
) -> list[float]:
    """Send route requests for `seconds`; returns the latency of each answer, in seconds."""
    host, _, port = namesrv.rpartition(":")
    times: list[float] = []
    place = count(random.randrange(len(frames)))
    with ExitStack() as stack, selectors.DefaultSelector() as selector:

        def send(connection: socket.socket, sent: deque[float], requests: int) -> None:
            asked = [frames[next(place) % len(frames)] for _ in range(requests)]
            sent.extend([time.monotonic()] * requests)
            connection.sendall(b"".join(asked))

        for _ in range(connections):
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sent: deque[float] = deque()
            send(connection, sent, window)
            selector.register(connection, selectors.EVENT_READ, (Counter(), sent))
        started = now = time.monotonic()
        while now - started < seconds:
            ready = selector.select(SILENCE_SECONDS_MAX)
            if not ready:
                raise TimeoutError(f"{namesrv}: no answer in {SILENCE_SECONDS_MAX} s")
            for key, _ in ready:
                counter, sent = key.data
                came = counter.count(key.fileobj.recv(RECEIVE_BYTES))
                now = time.monotonic()
                times += [now - sent.popleft() for _ in range(came)]
                if came:
                    send(key.fileobj, sent, came)
    return times


class Counter:
    """Counts the frames of a stream by their lengths."""

    def __init__(self) -> None:
        self._left = 0
        self._head = b""

    def count(self, data: bytes) -> int:
        """The number of frames that end within `data`, the next bytes of the stream."""
        if not data:
            raise ConnectionError("the NameServer closed the connection")
        ended, at = 0, 0
        while at < len(data):
            if self._left == 0:
                piece = data[at : at + 4 - len(self._head)]
                self._head += piece
                at += len(piece)
                if len(self._head) < 4:
                    break
                (self._left,) = struct.unpack(">i", self._head)
                self._head = b""
            step = min(self._left, len(data) - at)
            self._left -= step
            at += step
            ended += self._left == 0
        return ended

"""Misbehaving clients, as a process: `python -m benches.lib.trouble KIND HOST:PORT COUNT`.

Prints "ready" once all clients are connected, misbehaves from the first line on stdin until the
second one, then prints its counts as JSON. All kinds except `stopped-at-once` send at a bounded
rate and in small pieces, as a network delivers them, so that they cost the machine the same with
any receiver. The kind "sink" is a server that reads everything and answers nothing: in the place of
the broker it shows the load of the generator alone.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benches.lib.crowd import send_frame
from benches.lib.loads import BACKLOG_TOPIC
from mqcommon.names import OWNER_GROUP
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame, decode, encode
from mqserver.commands.command_runtime import allow_open_files

PULLS_EACH = 400
"""Pulls of each client, with 32 KiB of answer each: far more than the socket buffers hold."""
INLINE_SUBSCRIPTION = 4
DRIBBLE_BYTES = 7
"""Bytes per second of each slow sender."""
SLICE_SECONDS = 0.001
PIECE_BYTES = 1 << 16
"""Most bytes of one send call: some kernels do not preempt a thread within a call, and a megabyte
takes long."""
READERS_PER_SECOND = 1_500
"""Stopped readers that start per second. Together they send 210 MB/s, like the floods."""
FLOOD_BYTES = 1 << 20
FLOOD_FRAMES_PER_SECOND = 200
"""Frames per second of all flooding clients together, a megabyte each."""
HALF_FRAMES_PER_SECOND = 100
SYSTEM_BUSY = 2
BACKLOG = 4_096


@dataclass
class Done:
    """Counts of what the clients did. answered_busy: replies with RocketMQ's code 2."""

    sent: int = 0
    answers: int = 0
    answered_busy: int = 0
    closed: int = 0


class Client:
    """One misbehaving client; it counts the answers that it reads."""

    def __init__(self, address: tuple[str, int], done: Done) -> None:
        self.socket = socket.create_connection(address, 30.0)
        self.socket.setblocking(False)
        self._done = done
        self._unsent = memoryview(b"")
        self._unread = b""

    def offer(self, data: bytes) -> bool:
        """Send a piece of `data`, or of the unfinished frame; True if the socket takes more of
        it."""
        if not self._unsent:
            self._done.sent += 1
            self._unsent = memoryview(data)
        return self.push()

    def push(self) -> bool:
        """Send a piece of the unfinished frame; True if more is left and the socket takes it."""
        if not self._unsent:
            return False
        left = len(self._unsent)
        try:
            sent = self.socket.send(self._unsent[:PIECE_BYTES])
        except OSError:  # the buffer is full, or the broker closed the connection
            return False
        self._unsent = self._unsent[sent:]
        return sent == PIECE_BYTES < left

    def take_answers(self) -> None:
        """Read and count all answers that have arrived."""
        with contextlib.suppress(OSError):
            while data := self.socket.recv(PIECE_BYTES):
                self._unread += data
        while len(self._unread) >= 4:
            size = 4 + int.from_bytes(self._unread[:4], "big")
            if len(self._unread) < size:
                return
            reply = decode(self._unread[:size])
            self._unread = self._unread[size:]
            self._done.answers += 1
            self._done.answered_busy += reply.code == SYSTEM_BUSY


Step = Callable[[int], None]


def _one_by_one(turns: Iterator[Client], data: bytes, per_second: int) -> Step:
    """One client after another sends `data`, in pieces, as far as its socket takes it."""
    pieces_per_second = per_second * math.ceil(len(data) / PIECE_BYTES)
    current: Client | None = None
    due = 0.0

    def step(_slice: int) -> None:
        nonlocal current, due
        due += pieces_per_second * SLICE_SECONDS
        while due >= 1:
            due -= 1
            current = current or next(turns, None)
            if current is None or not current.offer(data):
                current = None

    return step


def _pulls() -> bytes:
    fields = {"consumerGroup": OWNER_GROUP, "topic": BACKLOG_TOPIC, "queueId": "0"}
    fields |= {"queueOffset": "0", "maxMsgNums": "32", "sysFlag": str(INLINE_SUBSCRIPTION)}
    fields |= {"commitOffset": "0", "suspendTimeoutMillis": "1000", "subVersion": "0"}
    fields |= {"subscription": "*", "expressionType": "TAG"}
    return encode(Frame(int(RequestCode.PULL_MESSAGE), fields)) * PULLS_EACH


def stopped_readers(clients: list[Client]) -> Step:
    """Each client pulls the backlog many times at once and reads no answer."""
    return _one_by_one(iter(clients), _pulls(), READERS_PER_SECOND)


def stopped_at_once(clients: list[Client]) -> Step:
    """The same, but all clients send as soon as they can."""
    pulls = _pulls()

    def step(slice_: int) -> None:
        if slice_ == 0:
            for client in clients:
                while client.offer(pulls):
                    pass

    return step


def slow_senders(clients: list[Client]) -> Step:
    """Each client sends a frame a few bytes at a time, spread over the second."""
    frame = encode(send_frame("Dribbled", 4, bytes(4_096)))
    slices = round(1 / SLICE_SECONDS)

    def step(slice_: int) -> None:
        at = slice_ // slices * DRIBBLE_BYTES % (len(frame) - DRIBBLE_BYTES)
        for client in clients[slice_ % slices :: slices]:
            client.offer(frame[at : at + DRIBBLE_BYTES])

    return step


def floods(clients: list[Client]) -> Step:
    """Requests of a megabyte that the broker's Python code refuses quickly."""
    return _flood(clients, b'{"clientID":"x"}' + bytes(FLOOD_BYTES))


def slow_floods(clients: list[Client]) -> Step:
    """Requests that take the broker's Python code longer than their transfer; 64 MiB may queue
    up."""
    unknown = b'"unknown":[' + b"0," * (FLOOD_BYTES >> 3) + b"0]"
    return _flood(clients, b'{"clientID":"x",' + unknown + b" " * FLOOD_BYTES + b"}")


def _flood(clients: list[Client], body: bytes) -> Step:
    beat = encode(Frame(int(RequestCode.HEART_BEAT), {}, body))
    send = _one_by_one(itertools.cycle(clients), beat, FLOOD_FRAMES_PER_SECOND)
    of_file = {client.socket.fileno(): client for client in clients}
    poll = select.epoll()
    for file in of_file:
        poll.register(file, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)

    def step(slice_: int) -> None:
        send(slice_)
        for file, _ in poll.poll(0):
            while of_file[file].push():
                pass
            of_file[file].take_answers()

    return step


def half_frames(clients: list[Client]) -> Step:
    """Each client sends most of a frame of a megabyte and never the rest."""
    half = encode(Frame(int(RequestCode.HEART_BEAT), {}, bytes(FLOOD_BYTES)))[:-100_000]
    return _one_by_one(iter(clients), half, HALF_FRAMES_PER_SECOND)


KINDS: dict[str, Callable[[list[Client]], Step]] = {
    "stopped-readers": stopped_readers,
    "stopped-at-once": stopped_at_once,
    "slow-senders": slow_senders,
    "floods": floods,
    "slow-floods": slow_floods,
    "half-frames": half_frames,
}
SINK = "sink"


def _paced() -> Iterator[int]:
    """Yields the number of each time slice when it is due, from one line on stdin to the next."""
    over = threading.Event()

    def await_end() -> None:
        sys.stdin.readline()
        over.set()

    sys.stdin.readline()
    threading.Thread(target=await_end, daemon=True).start()
    began, slice_ = time.monotonic(), 0
    while not over.is_set():
        yield slice_
        slice_ += 1
        due = began + slice_ * SLICE_SECONDS
        behind = time.monotonic() - due
        if behind < 0:
            over.wait(-behind)
        else:
            began += behind  # do not catch up in a burst after a delay


def misbehave(kind: str, address: tuple[str, int], count: int) -> None:
    """Run `count` clients of one kind."""
    done = Done()
    clients = [Client(address, done) for _ in range(count)]
    step = KINDS[kind](clients)
    print("ready", flush=True)
    for slice_ in _paced():
        step(slice_)
    done.closed = sum(_is_closed(client.socket) for client in clients)
    print(json.dumps(vars(done)), flush=True)


def _is_closed(one: socket.socket) -> bool:
    try:
        return one.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


def sink() -> None:
    """Accept every connection, read everything, answer nothing."""
    buffer = memoryview(bytearray(1 << 18))
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as server, select.epoll() as poll:
        sockets: dict[int, socket.socket] = {}
        poll.register(server, select.EPOLLIN)
        poll.register(sys.stdin, select.EPOLLIN)
        print(f"ready {server.getsockname()[1]}", flush=True)
        while True:
            for file, _ in poll.poll():
                if file == sys.stdin.fileno():
                    return
                if file == server.fileno():
                    one, _ = server.accept()
                    sockets[one.fileno()] = one
                    poll.register(one, select.EPOLLIN)
                elif not _read(sockets[file], buffer):
                    poll.unregister(file)
                    sockets.pop(file).close()


def _read(one: socket.socket, buffer: memoryview) -> bool:
    try:
        return one.recv_into(buffer) > 0
    except OSError:
        return False


def main() -> None:
    """Run the misbehaving clients or the sink."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=[*KINDS, SINK])
    parser.add_argument("address", nargs="?", default="")
    parser.add_argument("count", nargs="?", type=int, default=0)
    arguments = parser.parse_args()
    allow_open_files()
    if arguments.kind == SINK:
        sink()
        return
    host, _, port = arguments.address.rpartition(":")
    misbehave(arguments.kind, (host, int(port)), arguments.count)


if __name__ == "__main__":
    main()

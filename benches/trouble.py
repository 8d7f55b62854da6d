"""Clients that misbehave: `python -m benches.trouble KIND HOST:PORT COUNT`, a process of its own.

Says "ready" once all are connected, misbehaves from the first line that comes in until the second,
then says as JSON what it did. Everything is offered at a bounded rate, so that it takes the same of
the machine whoever it is sent to. SINK instead of a kind is who takes anything and answers nothing:
with it in the place of the broker, the rest of the machine is as busy as with the broker.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from benches.cases import BACKLOG_TOPIC
from benches.crowd import allow_files
from benches.scale import send_frame
from mqclient.wire.codes import RequestCode
from mqclient.wire.frame import Frame, decode, encode

PULLS_EACH = 400
"""Of 32 KiB each, were they read: the sockets take a few hundred of that."""
INLINE_SUBSCRIPTION = 4
DRIBBLE_BYTES = 7
"""Of each slow sender, per second."""
SLICE_SECONDS = 0.01
FLOOD_BYTES = 1 << 20
FLOOD_FRAMES_PER_SECOND = 200.0
"""Of all together: 200 MB a second."""
SYSTEM_BUSY = 2
BACKLOG = 4_096


@dataclass
class Done:
    """What was done. answered_busy: replies with RocketMQ's code 2."""

    sent: int = 0
    answers: int = 0
    answered_busy: int = 0
    closed: int = 0


class Client:
    """One that misbehaves; what it is answered is counted as it reads."""

    def __init__(self, address: tuple[str, int], done: Done) -> None:
        self.socket = socket.create_connection(address, 30.0)
        self.socket.setblocking(False)
        self._done = done
        self._unsent = b""
        self._unread = b""

    def offer(self, data: bytes) -> None:
        """Send it, unless the last of it is still on its way."""
        if not self._unsent:
            self._done.sent += 1
            self._unsent = data
        self.push()

    def push(self) -> None:
        """Send what the socket takes."""
        with contextlib.suppress(OSError):  # full, or closed by the broker
            self._unsent = self._unsent[self.socket.send(self._unsent) :]

    def take_answers(self) -> None:
        """Read what is there."""
        with contextlib.suppress(OSError):
            self._unread += self.socket.recv(1 << 16)
        while len(self._unread) >= 4:
            size = 4 + int.from_bytes(self._unread[:4], "big")
            if len(self._unread) < size:
                return
            reply = decode(self._unread[:size])
            self._unread = self._unread[size:]
            self._done.answers += 1
            self._done.answered_busy += reply.code == SYSTEM_BUSY


Step = Callable[[list[Client], int], None]


def stopped_readers() -> Step:
    """Each asks for the backlog many times at once, and reads nothing."""
    fields = {"consumerGroup": "CID_ONSAPI_OWNER", "topic": BACKLOG_TOPIC, "queueId": "0"}
    fields |= {"queueOffset": "0", "maxMsgNums": "32", "sysFlag": str(INLINE_SUBSCRIPTION)}
    fields |= {"commitOffset": "0", "suspendTimeoutMillis": "1000", "subVersion": "0"}
    fields |= {"subscription": "*", "expressionType": "TAG"}
    pulls = encode(Frame(int(RequestCode.PULL_MESSAGE), fields)) * PULLS_EACH

    def step(clients: list[Client], slice_: int) -> None:
        if slice_ == 0:
            for client in clients:
                client.offer(pulls)

    return step


def slow_senders() -> Step:
    """Each sends a frame a few bytes at a time, spread over the second."""
    frame = encode(send_frame("Dribbled", 4, bytes(4_096)))
    slices = round(1 / SLICE_SECONDS)

    def step(clients: list[Client], slice_: int) -> None:
        at = slice_ // slices * DRIBBLE_BYTES % (len(frame) - DRIBBLE_BYTES)
        for client in clients[slice_ % slices :: slices]:
            client.offer(frame[at : at + DRIBBLE_BYTES])

    return step


def floods() -> Step:
    """Requests of a megabyte that Python refuses as they come."""
    return _flood(b'{"clientID":"x"}' + bytes(FLOOD_BYTES))


def slow_floods() -> Step:
    """Those that take Python longer than they take to come; 64 MiB of them may wait."""
    unknown = b'"unknown":[' + b"0," * (FLOOD_BYTES >> 3) + b"0]"
    return _flood(b'{"clientID":"x",' + unknown + b" " * FLOOD_BYTES + b"}")


def _flood(body: bytes) -> Step:
    beat = encode(Frame(int(RequestCode.HEART_BEAT), {}, body))
    each = FLOOD_FRAMES_PER_SECOND * SLICE_SECONDS

    def step(clients: list[Client], slice_: int) -> None:
        first, last = int(slice_ * each), int((slice_ + 1) * each)
        for number in range(first, last):
            clients[number % len(clients)].offer(beat)
        for client in clients:
            client.push()
            client.take_answers()

    return step


def half_frames() -> Step:
    """Each sends most of a megabyte and never the rest."""
    half = encode(Frame(int(RequestCode.HEART_BEAT), {}, bytes(FLOOD_BYTES)))[:-100_000]

    def step(clients: list[Client], slice_: int) -> None:
        if slice_ < len(clients):
            clients[slice_].offer(half)
        for client in clients[max(0, slice_ - 20) : slice_]:
            client.push()

    return step


KINDS: dict[str, Callable[[], Step]] = {
    "stopped-readers": stopped_readers,
    "slow-senders": slow_senders,
    "floods": floods,
    "slow-floods": slow_floods,
    "half-frames": half_frames,
}
SINK = "sink"


def _paced() -> Iterator[int]:
    """Numbers of slices of time, each when it is due, from one line that comes in to the next."""
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
            began += behind  # what could not be offered in time is not offered at once later


def misbehave(kind: str, address: tuple[str, int], count: int) -> None:
    """Be so many clients of that kind."""
    done = Done()
    clients = [Client(address, done) for _ in range(count)]
    step = KINDS[kind]()
    print("ready", flush=True)
    for slice_ in _paced():
        step(clients, slice_)
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
    """Accept everybody, read everything, answer nothing."""
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
    """Be a kind of trouble, or the sink."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=[*KINDS, SINK])
    parser.add_argument("address", nargs="?", default="")
    parser.add_argument("count", nargs="?", type=int, default=0)
    arguments = parser.parse_args()
    allow_files()
    if arguments.kind == SINK:
        sink()
        return
    host, _, port = arguments.address.rpartition(":")
    misbehave(arguments.kind, (host, int(port)), arguments.count)


if __name__ == "__main__":
    main()

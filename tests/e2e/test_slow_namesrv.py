"""A NameServer that stops answering does not delay the creation of topics."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqserver.registration.registrar import CREATED_WAIT_S
from tests.e2e.test_registration import namesrv, route
from tests.waiting import until

CREATIONS = 40


class Door:
    """Forwards to a NameServer. While it is shut, connections succeed and get no answer."""

    def __init__(self, behind: str) -> None:
        host, _, port = behind.rpartition(":")
        self._behind = host, int(port)
        self._open = threading.Event()
        self._open.set()
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def shut(self) -> None:
        self._open.clear()

    def open(self) -> None:
        self._open.set()

    def close(self) -> None:
        self.open()
        for one in (self._listener, *self._sockets):
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(self._behind)
                self._sockets += near, far
                for pair in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                self._open.wait()
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)


@contextmanager
def door_to(address: str) -> Iterator[Door]:
    door = Door(address)
    try:
        yield door
    finally:
        door.close()


def beat(broker: Probe, group: str) -> float:
    """A new group's first heartbeat, which makes its retry topic; seconds until the answer."""
    consumer = {"groupName": group, "subscriptionDataSet": []}
    body = {"clientID": "c", "consumerDataSet": [consumer], "producerDataSet": []}
    frame = Frame(34, {}, json.dumps(body).encode())
    began = time.monotonic()
    assert broker.call(frame).code == 0
    return time.monotonic() - began


def test_a_hanging_namesrv_delays_only_the_first_creation(tmp_path: Path) -> None:
    with namesrv(tmp_path / "1") as one, namesrv(tmp_path / "2") as two, door_to(two.address) as at:
        settings = {"namesrvAddr": f"{one.address};{at.address}"}
        with Standalone(settings=settings) as mq, Probe(mq.broker_address) as broker:
            beat(broker, "early")
            assert route(two.address, "%RETRY%early"), "both are prompt"
            at.shut()
            took = [beat(broker, f"group-{number}") for number in range(CREATIONS)]
            late = sum(one > CREATED_WAIT_S * 0.9 for one in took)
            assert late < CREATIONS / 4, f"{took}: one is, and those of a busy machine"
            for number in range(CREATIONS):
                assert route(one.address, f"%RETRY%group-{number}"), "the other one knows all"
            at.open()
            assert until(lambda: bool(route(two.address, f"%RETRY%group-{CREATIONS - 1}")))
            assert all(route(two.address, f"%RETRY%group-{number}") for number in range(CREATIONS))

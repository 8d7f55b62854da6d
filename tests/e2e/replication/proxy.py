"""A proxy between a slave and its master's HA port, which breaks connections as it is told."""

from __future__ import annotations

import enum
import random
import socket
import threading
from contextlib import suppress

CHUNK_BYTES = 64 << 10
ATTEMPT_S = 0.01
"""Pause before the next attempt to reach a master that does not listen."""
SLOW_BYTES = 512
"""Bytes that pass at once while the proxy is slow."""


class Way(enum.Enum):
    """A direction of the bytes."""

    TO_SLAVE = "to the slave"
    TO_MASTER = "to the master"


class Proxy:
    """Listens at `address` and forwards to a port of this machine.

    parts: number of times that `hold_within` has taken effect. seed: of the lengths of those parts.
    A connection that comes while nothing passes, or while the master does not listen, is kept and
    forwarded later: a slave waits five seconds after a refused connection.
    """

    def __init__(self, target_port: int, seed: int = 1) -> None:
        self.target_port = target_port
        self._random = random.Random(seed)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self._changed = threading.Condition()
        self._held: set[Way] = set()
        self._part: Way | None = None
        self._is_slow = False
        self._is_closed = False
        self._links: set[_Link] = set()
        self.parts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    # --- faults

    def cut(self) -> None:
        """Close all connections; new ones wait until `heal`."""
        with self._changed:
            self._held.update(Way)
        self.reset()

    def reset(self) -> None:
        """Close all connections; new ones are forwarded."""
        for link in self._all():
            link.close()

    def hold(self, way: Way) -> None:
        """Keep the bytes of one direction back; no connection is closed."""
        with self._changed:
            self._held.add(way)

    def hold_within(self, way: Way) -> None:
        """Forward a part of the next bytes of one direction, then keep the rest back."""
        with self._changed:
            self._part = way

    def slow(self) -> None:
        """Forward few bytes at a time."""
        with self._changed:
            self._is_slow = True

    def forget_slaves(self) -> None:
        """Close the slaves' ends only: the master's ends stay open until `heal`."""
        for link in self._all():
            link.close_slave()

    def heal(self) -> None:
        """Forward everything again; connections that a slave has left are closed."""
        with self._changed:
            self._held.clear()
            self._part, self._is_slow = None, False
            self._changed.notify_all()
        for link in self._all():
            link.end_if_left()

    def close(self) -> None:
        """Close the port and all connections."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        _shut(self._listener)
        self._listener.close()
        self.reset()

    # --- connections

    def _all(self) -> list[_Link]:
        with self._changed:
            return list(self._links)

    def _accept(self) -> None:
        while True:
            try:
                slave, _ = self._listener.accept()
            except OSError:
                return
            link = _Link(self, slave)
            with self._changed:
                self._links.add(link)
            threading.Thread(target=link.run, daemon=True).start()

    def connect(self, link: _Link) -> socket.socket | None:
        """A connection to the master as soon as it listens and bytes may pass; None: too late."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._held != set(Way) or self._has_ended(link))
                if self._has_ended(link):
                    return None
            with suppress(OSError):
                return socket.create_connection(("127.0.0.1", self.target_port), 10)
            with self._changed:
                self._changed.wait_for(lambda: self._has_ended(link), ATTEMPT_S)

    def _has_ended(self, link: _Link) -> bool:
        return self._is_closed or link.is_closed

    def admit(self, link: _Link, way: Way, count: int) -> int:
        """How many of `count` bytes may pass now; waits while none may. 0: the link has ended."""
        with self._changed:
            if self._part is way and count > 1:
                # The rest stays back until `heal`; if the connection ends before, it is lost.
                self._part = None
                self._held.add(way)
                self.parts += 1
                return self._random.randrange(1, count)
            self._changed.wait_for(lambda: way not in self._held or self._has_ended(link))
            if self._has_ended(link):
                return 0
            if self._is_slow:
                self._changed.wait_for(lambda: self._has_ended(link), ATTEMPT_S)
                count = min(count, SLOW_BYTES)
            return count

    def wake(self) -> None:
        """A connection was closed: whoever waits for it looks again."""
        with self._changed:
            self._changed.notify_all()

    def left(self, link: _Link) -> None:
        """A connection has ended."""
        with self._changed:
            self._links.discard(link)


class _Link:
    """A connection of a slave, and the one to the master that it is forwarded to."""

    def __init__(self, proxy: Proxy, slave: socket.socket) -> None:
        self._proxy = proxy
        self._slave = slave
        self._master: socket.socket | None = None
        self._is_left = False
        self.is_closed = False

    def run(self) -> None:
        master = self._proxy.connect(self)
        if master is not None:
            self._master = master
            if not self.is_closed:
                master.settimeout(None)
                back = threading.Thread(
                    target=self._pump, args=(self._slave, master, Way.TO_MASTER), daemon=True
                )
                back.start()
                self._pump(master, self._slave, Way.TO_SLAVE)
                back.join()
        self.close()
        self._slave.close()
        if master is not None:
            master.close()
        self._proxy.left(self)

    def _pump(self, source: socket.socket, sink: socket.socket, way: Way) -> None:
        with suppress(OSError):
            while data := source.recv(CHUNK_BYTES):
                while data:
                    count = self._proxy.admit(self, way, len(data))
                    if not count:
                        return
                    sink.sendall(data[:count])
                    data = data[count:]
        if not self._is_left:
            self.close()

    def close_slave(self) -> None:
        """Close the slave's end."""
        self._is_left = True
        _shut(self._slave)

    def end_if_left(self) -> None:
        """Close the master's end as well, if the slave's is closed."""
        if self._is_left:
            self.close()

    def close(self) -> None:
        """Close both ends; the threads then end."""
        self.is_closed = True
        for end in (self._slave, self._master):
            if end is not None:
                _shut(end)
        self._proxy.wake()


def _shut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)

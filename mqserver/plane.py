"""What the servers use of the compiled plane; `listener.Listener` is the real one."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

SWITCH_INTERVAL_S = 0.0005
"""Python threads change hands this often, so that hand-off threads do not starve each other."""

Queue = tuple[str, str, int]
"""A queue as the lock table knows it: topic, broker name, queue id."""


Traffic = tuple[str, str, str, int, list[int]]
"""What the plane served: "put", "get" or "delivery" (of delayed messages), topic, group (of a get),
queue (-1: any; of the schedule topic for a delivery); requests, messages, bytes, milliseconds of
waiting for the disk, and bytes of the log behind the last message read. A row may come several
times."""


class Event(Protocol):
    """A connection ended."""

    @property
    def kind(self) -> str:
        """Why: "closed", "idle", "bad_frame", "unread", "tls" or "refused"."""
        ...

    @property
    def connection(self) -> int:
        """The connection's number."""
        ...

    @property
    def remote(self) -> str:
        """The peer's address, "ip:port"."""
        ...


class Plane(Protocol):
    """Sockets, published tables and queue locks."""

    def publish(
        self, table: str, version: int, rows: Mapping[str, object | None], replace: bool = False
    ) -> None:
        """Give the plane rows of a table; None deletes one."""
        ...

    def send(self, connection: int, frame: bytes) -> bool:
        """Send a one-way request to a client; False if it is gone."""
        ...

    def is_open(self, connection: int) -> bool:
        """Whether a connection is open."""
        ...

    def close_connection(self, connection: int) -> None:
        """Close a connection; unknown ones are ignored."""
        ...

    def silent(self, connections: Sequence[int], seconds: float) -> list[int]:
        """Those of the connections whose heartbeats the plane has not answered for so long."""
        ...

    def lock_batch(
        self, group: str, client_id: str, queues: Sequence[Queue]
    ) -> tuple[list[Queue], str | None]:
        """Lock queues for a client; returns those it holds now, and what to tell it where a bound
        refused others."""
        ...

    def unlock_batch(self, group: str, client_id: str, queues: Sequence[Queue]) -> None:
        """Unlock the queues that the client holds."""
        ...

    def counters(self) -> dict[str, int]:
        """What the plane counted since its start."""
        ...


class Tables:
    """Publishes with rising versions. Until `attach`, changes are kept and sent then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: dict[str, int] = {}
        self._waiting: list[tuple[str, dict[str, object | None], bool]] = []
        self._plane: Plane | None = None

    def attach(self, plane: Plane) -> None:
        """Send everything published so far, and all later changes at once."""
        with self._lock:
            self._plane = plane
            for table, rows, replace in self._waiting:
                self._send(plane, table, rows, replace)
            self._waiting.clear()

    def publish(self, table: str, rows: Mapping[str, object | None], replace: bool = False) -> None:
        """Publish rows of one table, atomically; None deletes a row."""
        with self._lock:
            if self._plane is None:
                self._waiting.append((table, dict(rows), replace))
            else:
                self._send(self._plane, table, rows, replace)

    def forget_heartbeats(self, connections: Iterable[int] | None = None) -> None:
        """Have the plane ask again when these clients' heartbeats come; None: everybody's.

        A heartbeat that was taken once is answered by the plane while its words stay the same.
        Call this after a change that the same words would undo or add to.
        """
        rows = dict.fromkeys(map(str, connections or ()))
        if rows or connections is None:
            self.publish("heartbeats", rows, replace=connections is None)

    def _send(
        self, plane: Plane, table: str, rows: Mapping[str, object | None], replace: bool
    ) -> None:
        version = self._versions.get(table, 0) + 1
        self._versions[table] = version
        plane.publish(table, version, rows, replace)

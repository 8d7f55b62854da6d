"""The calls that the servers make to the compiled plane; `listener.Listener` implements them."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

SWITCH_INTERVAL_S = 0.0005
"""Interval at which Python switches threads; a short one keeps one hand-off thread from starving
the others."""

Queue = tuple[str, str, int]
"""A queue as the lock table knows it: topic, broker name, queue id."""


Traffic = tuple[str, str, str, int, list[int]]
"""One row of the plane's traffic counts: kind, topic, group, queue id, figures.

The kind is "put", "get" or "delivery" (of delayed messages). Only a get has a group. The queue id
is -1 for any queue; a delivery names the queue of the schedule topic. The figures are requests,
messages, bytes, milliseconds of waiting for the disk, and bytes of the log after the last message
read. Several rows may have the same key; their figures add up."""


class PlaneStopped(Exception):
    """The plane has stopped, so it will never have an answer to wait for."""


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
        """The connections whose last natively answered heartbeat is at least `seconds` old."""
        ...

    def lock_batch(
        self, group: str, client: tuple[str, str], queues: Sequence[Queue]
    ) -> tuple[list[Queue], str | None]:
        """Lock queues for a client; returns the queues it holds now, and the remark for the client
        if a limit refused the others."""
        ...

    def unlock_batch(self, group: str, client_id: str, queues: Sequence[Queue]) -> None:
        """Unlock the queues that the client holds."""
        ...

    def counters(self) -> dict[str, int]:
        """The plane's counters since its start."""
        ...


class Tables:
    """Publishes with rising versions. Changes made before `attach` are kept and sent then."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._versions: dict[str, int] = {}
        self._waiting: list[tuple[str, dict[str, object | None], bool]] = []
        self._plane: Plane | None = None

    def attach(self, plane: Plane) -> None:
        """Send everything published so far; from now on each change is sent when it is made."""
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
        """Make the plane hand off the next heartbeat of these connections; None: of all.

        The plane answers a repeated heartbeat itself while its bytes stay the same. Call this after
        a change to which a repeated heartbeat would make a difference.
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

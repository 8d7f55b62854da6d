"""Producer groups and their members (`ProducerManager`).

A group goes when its last member says that it leaves; when a connection ends, it stays, unless too
many such groups are there.
"""

from __future__ import annotations

import threading

from mqserver.broker.state.bounds import Bounds, Footprints
from mqserver.broker.state.members import Member

EMPTY_GROUPS_MAX = 10_000
"""Groups without members that are still told apart from unknown ones; the oldest are forgotten."""
_KIND = "producer"


class Producers:
    """The table of producer groups. footprints: what each connection may have remembered."""

    def __init__(self, footprints: Footprints | None = None) -> None:
        self._lock = threading.Lock()
        self._footprints = footprints or Footprints(Bounds())
        self._groups: dict[str, dict[int, Member]] = {}
        self._empty: dict[str, None] = {}

    def register(self, group: str, member: Member) -> None:
        """Add a member or refresh it. Raises Refused at a bound."""
        with self._lock:
            self._footprints.take(member.connection, _KIND, group)
            self._groups.setdefault(group, {})[member.connection] = member
            self._empty.pop(group, None)

    def unregister(self, group: str, connection: int) -> None:
        """Remove a member that leaves, and the group with its last one."""
        with self._lock:
            self._footprints.give_back(connection, _KIND, group)
            members = self._groups.get(group, {})
            members.pop(connection, None)
            if not members:
                self._groups.pop(group, None)
                self._empty.pop(group, None)

    def close(self, connection: int) -> None:
        """A connection ended: its member leaves every group."""
        with self._lock:
            for group in self._footprints.groups(connection, _KIND):
                self._footprints.give_back(connection, _KIND, group)
                members = self._groups.get(group, {})
                members.pop(connection, None)
                if not members:
                    self._empty[group] = None
            while len(self._empty) > EMPTY_GROUPS_MAX:
                oldest = next(iter(self._empty))
                del self._empty[oldest]
                self._groups.pop(oldest, None)

    def members(self, group: str) -> list[Member]:
        """The members of a group; none for an unknown one."""
        with self._lock:
            return list(self._groups.get(group, {}).values())

    def knows(self, group: str) -> bool:
        """Whether the group has a member, or had one that did not say that it leaves."""
        with self._lock:
            return group in self._groups

    def all(self) -> dict[str, list[Member]]:
        """Members by group, groups without any left out."""
        with self._lock:
            return {name: list(rows.values()) for name, rows in self._groups.items() if rows}

    def connection_of(self, client_id: str) -> int | None:
        """The newest connection of a client that produces, by its id."""
        with self._lock:
            found = [
                member
                for members in self._groups.values()
                for member in members.values()
                if member.client_id == client_id
            ]
        return max(found, key=lambda member: member.seen).connection if found else None

    def silent_since(self, limit: float) -> list[int]:
        """Connections of members not heard of since a monotonic time."""
        with self._lock:
            return [
                member.connection
                for members in self._groups.values()
                for member in members.values()
                if member.seen < limit
            ]

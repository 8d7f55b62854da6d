"""Producer groups and their members (`ProducerManager`).

A group ends when its last member unregisters. A group whose last connection closes stays, unless
there are too many groups without members.
"""

from __future__ import annotations

import threading

from mqserver.broker.state.bounds import Bounds, Footprints
from mqserver.broker.state.members import Member

EMPTY_GROUPS_MAX = 10_000
"""Most groups without members that the broker remembers; it forgets the oldest."""
_KIND = "producer"


class Producers:
    """The table of producer groups. footprints: limits on the memberships of each connection."""

    def __init__(self, footprints: Footprints | None = None) -> None:
        self._lock = threading.Lock()
        self._footprints = footprints or Footprints(Bounds())
        self._groups: dict[str, dict[int, Member]] = {}
        self._empty: dict[str, None] = {}

    def register(self, group: str, member: Member) -> None:
        """Add a member or refresh it. Raises Refused at a limit."""
        with self._lock:
            self._footprints.take(member.connection, _KIND, group, by=member.remote)
            self._groups.setdefault(group, {})[member.connection] = member
            self._empty.pop(group, None)

    def unregister(self, group: str, connection: int) -> None:
        """Remove a member that unregisters, and with the last member the group."""
        with self._lock:
            self._footprints.give_back(connection, _KIND, group)
            members = self._groups.get(group, {})
            members.pop(connection, None)
            if not members:
                self._groups.pop(group, None)
                self._empty.pop(group, None)

    def close(self, connection: int) -> None:
        """Remove the member of a closed connection from every group."""
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
        """The members of a group; an empty list for an unknown group."""
        with self._lock:
            return list(self._groups.get(group, {}).values())

    def knows(self, group: str) -> bool:
        """Whether the group has members, or had members that never unregistered."""
        with self._lock:
            return group in self._groups

    def all(self) -> dict[str, list[Member]]:
        """The members by group, without groups that have no members."""
        with self._lock:
            return {name: list(rows.values()) for name, rows in self._groups.items() if rows}

    def connection_of(self, client_id: str) -> int | None:
        """The connection of the newest heartbeat of a producer, by its client id."""
        with self._lock:
            found = [
                member
                for members in self._groups.values()
                for member in members.values()
                if member.client_id == client_id
            ]
        return max(found, key=lambda member: member.seen).connection if found else None

    def silent_since(self, limit: float) -> list[int]:
        """The connections of members whose last heartbeat is older than a monotonic time."""
        with self._lock:
            return [
                member.connection
                for members in self._groups.values()
                for member in members.values()
                if member.seen < limit
            ]

"""Consumer groups, their members and subscriptions (`ConsumerManager`).

Each change publishes two tables: "subscriptions" for the pull path, and the ready answer to
code 38. `notify`, which tells the members of a change (code 40), is called outside the lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

from msgspec import Struct, field
from msgspec.structs import replace

from mqcommon.wire.bodies.groups import ConsumerConnection
from mqcommon.wire.bodies.heartbeat import (
    ConsumerData,
    GetConsumerListByGroupResponseBody,
    SubscriptionData,
)
from mqserver.broker.state.bounds import MEMBERSHIP_BYTES, Bounds, Footprints
from mqserver.broker.state.members import Member
from mqserver.broker.tags import is_tag_type
from mqserver.runtime.data_plane import Tables

BROADCASTING = "BROADCASTING"
_KIND = "consumer"
_VERSION_MAX = (1 << 63) - 1
_SQL_BYTES = 8
"""Assumed bytes of a compiled expression for each byte of its text."""


class ConsumerGroup(Struct):
    """The members and subscriptions of a group; the latest heartbeat decides type and model.

    held: by topic and connection, the newest subscription that this member sent. A subscription
    counts only while a member holds it. So a very high version ends with the client that sent it.
    """

    consume_type: str | None = None
    message_model: str | None = None
    consume_from_where: str | None = None
    members: dict[int, Member] = field(default_factory=dict)
    subscriptions: dict[str, SubscriptionData] = field(default_factory=dict)
    held: dict[str, dict[int, SubscriptionData]] = field(default_factory=dict)

    def client_ids(self) -> list[str]:
        """The client ids of the members, without duplicates."""
        return list(dict.fromkeys(member.client_id for member in self.members.values()))


class Consumers:
    """The table of consumer groups.

    notify: called with a group, the connections of its members and whether a connection was lost,
    after a change of members or topics. follow: called under the lock after each change, with the
    group's present subscriptions, or none when its last member left. footprints: limits on the
    memberships of each connection.
    """

    def __init__(
        self,
        tables: Tables,
        notify: Callable[[str, list[int], bool], None],
        follow: Callable[[str, Iterable[SubscriptionData]], None] = lambda _group, _wanted: None,
        footprints: Footprints | None = None,
    ) -> None:
        self._lock = threading.Lock()
        self._follow = follow
        self._footprints = footprints or Footprints(Bounds())
        self._groups: dict[str, ConsumerGroup] = {}
        self._tables = tables
        self._notify = notify

    def register(self, data: ConsumerData, member: Member) -> bool:
        """Register one group of a heartbeat; returns whether members or topics changed.

        Raises Refused at a limit.
        """
        with self._lock:
            self._footprints.take(
                member.connection, _KIND, data.group_name, _text_bytes(data), member.remote
            )
            group = self._groups.setdefault(data.group_name, ConsumerGroup())
            known = group.members.get(member.connection)
            joined = known is None or known.client_id != member.client_id
            group.members[member.connection] = member
            before = (group.consume_type, group.message_model, group.consume_from_where)
            group.consume_type = data.consume_type
            group.message_model = data.message_model
            group.consume_from_where = data.consume_from_where
            now = (group.consume_type, group.message_model, group.consume_from_where)
            topics, newer = _subscribe(group, member.connection, data.subscription_data_set)
            if joined or topics or newer or before != now:
                self._publish(data.group_name, group)
            connections = list(group.members)
            if topics or newer or before != now:
                self._tables.forget_heartbeats(c for c in connections if c != member.connection)
        if joined or topics:
            self._notify(data.group_name, connections, False)
        return joined or topics

    def unregister(self, name: str, connection: int) -> None:
        """Remove a client that leaves a group (code 35)."""
        self._remove([name], connection, lost=False)

    def close(self, connection: int) -> None:
        """Remove the member of a closed connection from every group."""
        self._remove(self._footprints.groups(connection, _KIND), connection, lost=True)

    def _remove(self, names: Iterable[str], connection: int, lost: bool) -> None:
        for name in names:
            with self._lock:
                self._footprints.give_back(connection, _KIND, name)
                group = self._groups.get(name)
                if group is None or group.members.pop(connection, None) is None:
                    continue
                if not group.members:
                    del self._groups[name]
                changed = _withdraw(group, connection)
                self._publish(name, group)
                connections = list(group.members)
                if changed:
                    self._tables.forget_heartbeats(connections)
            self._notify(name, connections, lost)

    def get(self, name: str) -> ConsumerGroup | None:
        """A copy of a group, None if the group has no members."""
        with self._lock:
            group = self._groups.get(name)
            return _copy(group) if group else None

    def is_online(self, name: str) -> bool:
        """Whether a group has members."""
        with self._lock:
            return name in self._groups

    def connection(self, name: str) -> ConsumerConnection | None:
        """A group in the form of code 203, None if the group has no members."""
        group = self.get(name)
        if group is None:
            return None
        return ConsumerConnection(
            [member.as_connection() for member in group.members.values()],
            group.subscriptions,
            group.consume_type,
            group.message_model,
            group.consume_from_where,
        )

    def groups_of_topic(self, topic: str) -> list[str]:
        """The groups whose members subscribe to a topic."""
        with self._lock:
            return [name for name, group in self._groups.items() if topic in group.subscriptions]

    def silent_since(self, limit: float) -> list[int]:
        """The connections of members whose last heartbeat is older than a monotonic time."""
        with self._lock:
            return [
                member.connection
                for group in self._groups.values()
                for member in group.members.values()
                if member.seen < limit
            ]

    def _publish(self, name: str, group: ConsumerGroup) -> None:
        """Publish a group. The caller holds the lock, so that rows arrive in order."""
        online = bool(group.members)
        self._follow(name, group.subscriptions.values() if online else ())
        self._tables.publish("subscriptions", {name: _row(group) if online else None})
        ids = GetConsumerListByGroupResponseBody(group.client_ids())
        self._tables.publish("answers", {f"38|{name}": ids.to_json() if online else None})


def _text_bytes(data: ConsumerData) -> int:
    """The approximate bytes of a group's subscriptions."""
    total = 0
    for row in data.subscription_data_set:
        text = len(row.sub_string) * (1 if is_tag_type(row.expression_type) else _SQL_BYTES)
        tags = sum(map(len, row.tags_set)) + 8 * (len(row.tags_set) + len(row.code_set))
        total += MEMBERSHIP_BYTES + len(row.topic) + text + tags
    return total


def _subscribe(
    group: ConsumerGroup, connection: int, data: list[SubscriptionData]
) -> tuple[bool, bool]:
    """Apply a heartbeat's subscriptions; returns whether the topics changed, and whether a
    subscription is newer.

    RocketMQ compares versions only, so after a step of a client's clock it applies the old filter
    for good. Here a member that changes its own expression is newer, whatever its version.
    """
    topics = newer = False
    for subscription in data:
        holders = group.held.setdefault(subscription.topic, {})
        is_held = bool(holders)
        own = holders.get(connection)
        changed = own is not None and not _is_same(own, subscription)
        if own is None or changed or subscription.sub_version > own.sub_version:
            holders[connection] = subscription
        known = group.subscriptions.get(subscription.topic)
        if known is None:
            topics = True
        elif not is_held or subscription.sub_version > known.sub_version:
            newer = True
        elif changed and not _is_same(known, subscription):
            newer = True
            version = min(known.sub_version + 1, _VERSION_MAX)
            subscription = replace(subscription, sub_version=version)
            holders[connection] = subscription
        else:
            continue
        group.subscriptions[subscription.topic] = subscription
    wanted = {subscription.topic for subscription in data}
    for topic in [topic for topic in group.subscriptions if topic not in wanted]:
        del group.subscriptions[topic]
        topics = True
    for topic in [topic for topic in group.held if topic not in wanted]:
        _let_go(group, topic, connection)
    return topics, newer


def _is_same(one: SubscriptionData, other: SubscriptionData) -> bool:
    return (one.expression_type, one.sub_string) == (other.expression_type, other.sub_string)


def _withdraw(group: ConsumerGroup, connection: int) -> bool:
    """Drop the subscriptions of a member; returns whether one went back to an older version."""
    changed = False
    for topic in list(group.held):
        holders = _let_go(group, topic, connection)
        known = group.subscriptions.get(topic)
        newest = max(holders.values(), key=lambda held: held.sub_version, default=None)
        # As in RocketMQ, a topic that no member holds stays until the group's next heartbeat.
        if known is None or newest is None or newest.sub_version >= known.sub_version:
            continue
        changed = True
        group.subscriptions[topic] = newest
    return changed


def _let_go(group: ConsumerGroup, topic: str, connection: int) -> dict[int, SubscriptionData]:
    """Drop a member's subscription to a topic; returns the members that still have one."""
    holders = group.held[topic]
    holders.pop(connection, None)
    if not holders:
        del group.held[topic]
    return holders


def _copy(group: ConsumerGroup) -> ConsumerGroup:
    return ConsumerGroup(
        group.consume_type,
        group.message_model,
        group.consume_from_where,
        dict(group.members),
        dict(group.subscriptions),
    )


def _row(group: ConsumerGroup) -> tuple[bool, dict[str, tuple[str, str, int, list[int]]]]:
    return group.message_model == BROADCASTING, {
        topic: (
            subscription.expression_type or "TAG",
            subscription.sub_string,
            subscription.sub_version,
            list(subscription.code_set),
        )
        for topic, subscription in group.subscriptions.items()
    }

"""Loads a broker's tables from its state files.

A table whose file and previous copy are missing or damaged is rebuilt from the store: topics from
consume queues, groups from committed offsets. A table that comes from the previous copy gets what
the store shows and the copy does not know yet.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol, TypeVar, overload

from msgspec.structs import replace

from mqcommon import names
from mqcommon.wire.bodies.common import DataVersion
from mqcommon.wire.bodies.filters import ConsumerFilterData
from mqcommon.wire.bodies.groups import GroupConfig, SubscriptionGroupWrapper
from mqcommon.wire.bodies.route_bounds import QUEUES_MAX
from mqcommon.wire.bodies.topics import TopicConfig, TopicConfigSerializeWrapper
from mqserver.broker.state import filters, groups, reading, topics, unasked
from mqserver.broker.state.unasked import MadeUnasked
from mqstore import StoreDamaged

log = logging.getLogger("mqserver.broker")

T = TypeVar("T")
SHOWN_MAX = 20
"""Most names that a warning shows."""


class StateStore(Protocol):
    """The methods of `mqstore.Store` that loading uses; documented there."""

    @overload
    def load_state(self, name: str, check: None = None) -> bytes | None: ...
    @overload
    def load_state(self, name: str, check: Callable[[bytes], T]) -> T | None: ...

    def is_state_from_copy(self, name: str) -> bool:
        """Whether the last load of a file had to use its previous copy."""
        ...

    def set_state_aside(self, name: str, entries: list[reading.Aside]) -> None:
        """Keep entries that cannot be used in a file of their own, and log them."""
        ...

    def queues(self) -> Mapping[str, list[int]]:
        """The ids of the consume queues, by topic."""
        ...

    def committed_all(self) -> Mapping[str, Mapping[int, int]]:
        """The committed offsets, by topic@group and queue id."""
        ...


class Loading:
    """Reads the state files of one store.

    repairs: rebuild a damaged table (`damagePolicy=repair`) instead of raising StoreDamaged.
    built_in: the topics that every broker has.
    """

    def __init__(
        self, store: StateStore, repairs: bool, built_in: Iterable[str], now_ms: Callable[[], int]
    ) -> None:
        self._store = store
        self._repairs = repairs
        self._built_in = frozenset(built_in)
        self._now_ms = now_ms

    def topics(self) -> TopicConfigSerializeWrapper | None:
        """The table of topics; None if neither file nor store has topics."""
        found = self._read(topics.FILE, reading.read_topics)
        if found is None:
            rows = self._topics_of_queues()
            _warn(topics.FILE, "topics", rows)
            version = DataVersion(1, self._now_ms())
            return TopicConfigSerializeWrapper(rows, version) if rows else None
        if self._store.is_state_from_copy(topics.FILE):
            self._add_topics(found)
        return found

    def groups(self) -> SubscriptionGroupWrapper | None:
        """The table of groups; None if neither file nor store has groups."""
        found = self._read(groups.FILE, reading.read_groups)
        if found is None:
            rows = self._groups_of_offsets()
            _warn(groups.FILE, "groups", rows)
            version = DataVersion(1, self._now_ms())
            return SubscriptionGroupWrapper(rows, version) if rows else None
        if self._store.is_state_from_copy(groups.FILE):
            self._add_groups(found)
        return found

    def filters(self) -> list[ConsumerFilterData] | None:
        """The filters; None if the file is missing or damaged, as heartbeats restore them."""
        try:
            return self._load(filters.FILE, reading.read_filters)
        except StoreDamaged as error:
            log.warning("%s; consumers send their filters again with their heartbeats", error)
            return None

    def unasked(self) -> MadeUnasked:
        """The names that clients created; none if the file is missing or damaged, and then all
        present topics and groups stay for good."""
        try:
            return self._store.load_state(unasked.FILE, unasked.read) or MadeUnasked()
        except StoreDamaged as error:
            log.warning("%s; present topics and groups are not deleted when they are unused", error)
            return MadeUnasked()

    def _read(self, file: str, read: Callable[[bytes], reading.Read[T]]) -> T | None:
        try:
            return self._load(file, read)
        except StoreDamaged as error:
            if not self._repairs:
                raise
            log.error("%s", error)
            return None

    def _load(self, file: str, read: Callable[[bytes], reading.Read[T]]) -> T | None:
        found = self._store.load_state(file, read)
        if found is None:
            return None
        if found.aside:
            self._store.set_state_aside(file, found.aside)
        return found.content

    def _add_topics(self, copy: TopicConfigSerializeWrapper) -> None:
        """Add topics that only the store shows, and let clients read all queues of the others."""
        table = copy.topic_config_table
        added = {}
        for topic, row in self._topics_of_queues().items():
            known = table.get(topic)
            if known is None:
                added[topic] = row
            elif known.read_queue_nums < row.read_queue_nums:
                added[topic] = replace(known, read_queue_nums=row.read_queue_nums)
        if added:
            table.update(added)
            copy.data_version = self._newer(copy.data_version)
        _warn(f"{topics.FILE} comes from its previous copy; its newest version", "topics", added)

    def _add_groups(self, copy: SubscriptionGroupWrapper) -> None:
        table = copy.subscription_group_table
        added = {g: row for g, row in self._groups_of_offsets().items() if g not in table}
        if added:
            table.update(added)
            copy.data_version = self._newer(copy.data_version)
        _warn(f"{groups.FILE} comes from its previous copy; its newest version", "groups", added)

    def _newer(self, version: DataVersion) -> DataVersion:
        return DataVersion(version.counter + 1, self._now_ms())

    def _topics_of_queues(self) -> dict[str, TopicConfig]:
        return topics_of_queues(self._store.queues(), self._built_in.__contains__)

    def _groups_of_offsets(self) -> dict[str, GroupConfig]:
        found = {key.partition("@")[2] for key in self._store.committed_all()}
        for topic in self._store.queues():
            group = names.group_of(topic)
            if group is not None:
                found.add(group)
        wanted = (g for g in found if g not in names.SYSTEM_GROUPS and not reading.bad_name(g))
        is_light = names.LIGHT_PREFIX
        return {g: GroupConfig(g) for g in sorted(wanted) if not g.startswith(is_light)}


def topics_of_queues(
    queues: Mapping[str, list[int]], is_left_out: Callable[[str], bool]
) -> dict[str, TopicConfig]:
    """Topics with default settings for the ids of their queues, by topic."""
    rows = {}
    for topic, queue_ids in queues.items():
        is_listed = not is_left_out(topic) and not topic.startswith(names.LIGHT_PREFIX)
        if is_listed and reading.bad_name(topic) is None:
            count = min(max(queue_ids) + 1, QUEUES_MAX)
            rows[topic] = TopicConfig(
                topic, read_queue_nums=count, write_queue_nums=count, perm=topics.READ_WRITE
            )
    return rows


def _warn(file: str, what: str, rows: Mapping[str, object]) -> None:
    if not rows:
        return
    shown = ", ".join(sorted(rows)[:SHOWN_MAX])
    more = f" and {len(rows) - SHOWN_MAX} more" if len(rows) > SHOWN_MAX else ""
    log.warning(
        "%s is missing or damaged; rebuilt %d %s from the store with default settings (check "
        "queues and permissions): %s%s",
        file,
        len(rows),
        what,
        shown,
        more,
    )

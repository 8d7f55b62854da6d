"""The SQL92 filters of consumer groups, kept over a restart (server.md B.10).

A filter is dead while nobody of its group is online; one that is dead for a day is forgotten.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from mqclient.wire.bodies.base import BodyError
from mqclient.wire.bodies.filters import (
    BloomFilterData,
    ConsumerFilterData,
    ConsumerFilterWrapper,
    FilterDataMapByTopic,
)
from mqclient.wire.bodies.heartbeat import SubscriptionData
from mqserver.broker.tags import is_tag_type, sql_error
from mqstore import bloom_bits, fastjson

FILE = "consumerFilter.json"
DEAD_BEFORE_LOAD_MS = 30_000
"""A filter that was alive when its broker died counts as dead since so long before the start."""


class BloomShape(NamedTuple):
    """error_percent: `maxErrorRateOfBloomFilter`. groups: `expectConsumerNumUseFilter`."""

    error_percent: int
    groups: int

    def bits(self, group: str, topic: str) -> BloomFilterData:
        """The bits of a group's filter for a topic."""
        count, positions = bloom_bits(group, topic, self.error_percent, self.groups)
        return BloomFilterData(positions, count)


class Filters:
    """The table of filters by topic and group; every change marks the file.

    keep_ms: how long a dead one is kept (`filterDataCleanTimeSpan`).
    """

    def __init__(
        self,
        shape: BloomShape,
        keep_ms: int,
        now_ms: Callable[[], int],
        save: Callable[[str], None],
    ) -> None:
        self._lock = threading.Lock()
        self._shape = shape
        self._keep_ms = keep_ms
        self._now_ms = now_ms
        self._save = save
        self._rows: dict[tuple[str, str], ConsumerFilterData] = {}

    def load(self, text: bytes | None) -> None:
        """Take what the file says; all of it is dropped where its bits have another shape."""
        if not text or not text.strip():
            return
        try:
            wrapper = ConsumerFilterWrapper.from_json(text)
        except BodyError:
            return
        rows = {}
        for topic, by_group in wrapper.filter_data_by_topic.items():
            for group, row in by_group.group_filter_data.items():
                if row.bloom_filter_data != self._shape.bits(group, topic):
                    return
                if row.dead_time < row.born_time:
                    row.dead_time = self._now_ms() - DEAD_BEFORE_LOAD_MS
                row.dead = True
                rows[topic, group] = row
        self._rows = rows

    def render(self) -> bytes:
        """The file's text, as RocketMQ writes it; long dead filters are left out for good."""
        wrapper = ConsumerFilterWrapper()
        with self._lock:
            limit = self._now_ms() - self._keep_ms
            rows = self._rows.items()
            self._rows = {key: row for key, row in rows if not row.dead or row.dead_time >= limit}
            for (topic, group), row in self._rows.items():
                of_topic = wrapper.filter_data_by_topic.setdefault(
                    topic, FilterDataMapByTopic(topic)
                )
                of_topic.group_filter_data[group] = row
        return fastjson.dumps(wrapper.to_plain(), pretty=True).encode()

    def subscribed(self, group: str, subscriptions: list[SubscriptionData]) -> None:
        """Take a heartbeat's subscriptions; filters of other topics of the group are dead now."""
        wanted = {
            subscription.topic: subscription
            for subscription in subscriptions
            if not is_tag_type(subscription.expression_type)
            and sql_error(subscription.expression_type, subscription.sub_string) is None
        }
        with self._lock:
            changed = [self._take(group, subscription) for subscription in wanted.values()]
            for (topic, name), row in self._rows.items():
                if name == group and topic not in wanted:
                    changed.append(self._bury(row))
        if any(changed):
            self._save(FILE)

    def left(self, is_online: Callable[[str], bool]) -> None:
        """Filters of groups that nobody is online of are dead from now on."""
        with self._lock:
            changed = [
                self._bury(row) for (_, group), row in self._rows.items() if not is_online(group)
            ]
        if any(changed):
            self._save(FILE)

    def _take(self, group: str, subscription: SubscriptionData) -> bool:
        key, now_ms = (subscription.topic, group), self._now_ms()
        known = self._rows.get(key)
        if known is not None and not known.dead:
            is_same = known.expression == subscription.sub_string
            if subscription.sub_version <= known.client_version or is_same:
                known.client_version = max(known.client_version, subscription.sub_version)
                return False
        if known is not None and known.expression == subscription.sub_string:
            known.client_version = max(known.client_version, subscription.sub_version)
            known.dead, known.dead_time = False, 0
            return True
        self._rows[key] = ConsumerFilterData(
            group,
            subscription.topic,
            subscription.sub_string,
            subscription.expression_type or "",
            now_ms,
            subscription.sub_version,
            bloom_filter_data=self._shape.bits(group, subscription.topic),
        )
        return True

    def _bury(self, row: ConsumerFilterData) -> bool:
        if row.dead:
            return False
        row.dead, row.dead_time = True, self._now_ms()
        return True

"""The SQL92 filters of consumer groups, which survive a restart (`ConsumerFilterManager`).

A filter is dead while no member of its group subscribes with it. A filter that was dead for
`filterDataCleanTimeSpan` is deleted.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from mqcommon import fastjson
from mqcommon.wire.bodies.filters import (
    BloomFilterData,
    ConsumerFilterData,
    ConsumerFilterWrapper,
    FilterDataMapByTopic,
)
from mqcommon.wire.bodies.heartbeat import SubscriptionData
from mqserver.broker.state.reading import bad_name
from mqserver.broker.tags import is_tag_type, sql_error
from mqstore import bloom_bits

_log = logging.getLogger(__name__)

FILE = "consumerFilter.json"
KEPT_BYTES_MAX = 16 << 20
FILTER_BYTES = 256
"""Assumed size of a filter without its texts."""
DEAD_BEFORE_LOAD_MS = 30_000
"""A filter that was alive when the broker stopped counts as dead since this time before the
start."""


class BloomShape(NamedTuple):
    """The size of the bloom filters.

    error_percent: `maxErrorRateOfBloomFilter`. groups: `expectConsumerNumUseFilter`.
    """

    error_percent: int
    groups: int

    def bits(self, group: str, topic: str) -> BloomFilterData:
        """The bits of a group's filter for a topic."""
        count, positions = bloom_bits(group, topic, self.error_percent, self.groups)
        return BloomFilterData(positions, count)


Publish = Callable[[Mapping[str, object | None]], None]


def _size(row: ConsumerFilterData) -> int:
    """The approximate size of a filter, in bytes."""
    return FILTER_BYTES + len(row.consumer_group) + len(row.topic) + len(row.expression)


class Filters:
    """The table of filters by group and topic; every change marks the file for saving.

    keep_ms: how long a dead filter is kept (`filterDataCleanTimeSpan`). publish: called with the
    filters of each topic whose filters changed, for the filter bits of messages; None if messages
    carry no bits (`enableCalcFilterBitMap`). bytes_max: limit for the size of all filters
    (`maxFilterBytes`); at the limit, the filters that were dead for longest make room.
    """

    def __init__(
        self,
        shape: BloomShape,
        keep_ms: int,
        now_ms: Callable[[], int],
        save: Callable[[str], None],
        publish: Publish | None = None,
        bytes_max: Callable[[], int] = lambda: KEPT_BYTES_MAX,
    ) -> None:
        self._lock = threading.Lock()
        self._bytes_max = bytes_max
        self._shape = shape
        self._keep_ms = keep_ms
        self._now_ms = now_ms
        self._save = save
        self._publish = publish
        self._groups: dict[str, dict[str, ConsumerFilterData]] = {}
        self._bytes = 0

    def load(self, rows: list[ConsumerFilterData] | None) -> None:
        """Load the filters of the file, except those whose bits have another shape.

        RocketMQ drops the whole file in that case. Heartbeats of consumers restore such filters.
        """
        groups: dict[str, dict[str, ConsumerFilterData]] = {}
        dropped = 0
        for row in rows or ():
            if row.bloom_filter_data != self._shape.bits(row.consumer_group, row.topic):
                dropped += 1
                continue
            if row.dead_time < row.born_time:
                row.dead_time = self._now_ms() - DEAD_BEFORE_LOAD_MS
            row.dead = True
            groups.setdefault(row.consumer_group, {})[row.topic] = row
        if dropped:
            _log.warning(
                "dropped %d filters of %s, as the settings of the bloom filter changed; consumers "
                "send them again",
                dropped,
                FILE,
            )
        with self._lock:
            self._groups = groups
            self._bytes = sum(_size(row) for kept in groups.values() for row in kept.values())
            self._tell({topic for of_group in groups.values() for topic in of_group})

    def copy(self, of_master: Iterable[ConsumerFilterData]) -> None:
        """Take over the filters of a master, except those of groups that have a member here.

        Filters that the master lacks stay until they are dead for too long. RocketMQ's slaves copy
        no filters.
        """
        changed: set[str] = set()
        with self._lock:
            for row in of_master:
                group, topic = row.consumer_group, row.topic
                known = self._groups.get(group, {}).get(topic)
                if row == known or (known is not None and not known.dead and row.dead):
                    continue
                if row.bloom_filter_data != self._shape.bits(group, topic):
                    row.bloom_filter_data = self._shape.bits(group, topic)
                if self._has_room(row):
                    self._keep(self._groups.setdefault(group, {}), row)
                    changed.add(topic)
            self._tell(changed)
        if changed:
            self._save(FILE)

    def render(self) -> bytes:
        """The text of the file in RocketMQ's form; filters dead for too long are deleted first."""
        wrapper = ConsumerFilterWrapper()
        with self._lock:
            self._clean()
            for group, rows in self._groups.items():
                for topic, row in rows.items():
                    of_topic = wrapper.filter_data_by_topic.setdefault(
                        topic, FilterDataMapByTopic(topic)
                    )
                    of_topic.group_filter_data[group] = row
        return fastjson.dumps(wrapper.to_plain(), pretty=True).encode()

    def follow(self, group: str, subscriptions: Iterable[SubscriptionData]) -> None:
        """Apply the present subscriptions of a group; its filters of other topics become dead.

        A group without members subscribes to nothing.

        The table of consumers decides which member's expression counts. If this table compared
        versions too, a very high version would outlive its client and lock all others out.
        """
        wanted = {
            subscription.topic: subscription
            for subscription in subscriptions
            if not is_tag_type(subscription.expression_type)
            and bad_name(subscription.topic) is None
            and sql_error(subscription.expression_type, subscription.sub_string) is None
        }
        if not wanted and group not in self._groups:
            return  # most heartbeats have no SQL92 expression
        with self._lock:
            rows = self._groups.setdefault(group, {})
            changed = [self._take(group, rows, wanted[topic]) for topic in wanted]
            changed += [self._bury(row) for topic, row in rows.items() if topic not in wanted]
        if any(changed):
            self._save(FILE)

    def _take(
        self, group: str, rows: dict[str, ConsumerFilterData], subscription: SubscriptionData
    ) -> bool:
        topic = subscription.topic
        known = rows.get(topic)
        if known is not None and known.expression == subscription.sub_string:
            known.client_version = subscription.sub_version
            was_dead, known.dead, known.dead_time = known.dead, False, 0
            return was_dead
        new = ConsumerFilterData(
            group,
            topic,
            subscription.sub_string,
            subscription.expression_type or "",
            self._now_ms(),
            subscription.sub_version,
            bloom_filter_data=self._shape.bits(group, topic),
        )
        if not self._has_room(new):
            return False
        self._keep(rows, new)
        self._tell({topic})
        return True

    def _has_room(self, new: ConsumerFilterData) -> bool:
        """Whether there is room for a filter; deletes the filters that were dead for longest."""
        limit, more = self._bytes_max(), _size(new)
        if self._bytes + more <= limit:
            return True
        dead = [row for rows in self._groups.values() for row in rows.values() if row.dead]
        gone: set[str] = set()
        for row in sorted(dead, key=lambda row: row.dead_time):
            if self._bytes + more <= limit - limit // 8:  # leave room for the next filters too
                break
            self._drop(row)
            gone.add(row.topic)
        self._tell(gone)
        return self._bytes + more <= limit

    def _keep(self, rows: dict[str, ConsumerFilterData], row: ConsumerFilterData) -> None:
        if row.topic in rows:
            self._bytes -= _size(rows[row.topic])
        rows[row.topic] = row
        self._bytes += _size(row)

    def _drop(self, row: ConsumerFilterData) -> None:
        del self._groups[row.consumer_group][row.topic]
        self._bytes -= _size(row)

    def _bury(self, row: ConsumerFilterData) -> bool:
        if row.dead:
            return False
        row.dead, row.dead_time = True, self._now_ms()
        return True

    def _clean(self) -> None:
        limit = self._now_ms() - self._keep_ms
        changed: set[str] = set()
        for group, rows in list(self._groups.items()):
            over = [t for t, row in rows.items() if row.dead and row.dead_time < limit]
            for topic in over:
                self._drop(rows[topic])
            changed.update(over)
            if not rows:
                del self._groups[group]
        self._tell(changed)

    def _tell(self, topics: set[str]) -> None:
        """Publish the filters of these topics, also dead ones, as their consumers may return."""
        if self._publish is None or not topics:
            return
        found: dict[str, list[tuple[str, str, list[int]]]] = {topic: [] for topic in topics}
        bits = 0
        for group, rows in self._groups.items():
            for topic in topics & rows.keys():
                row, bloom = rows[topic], rows[topic].bloom_filter_data
                if bloom is not None and sql_error(row.expression_type, row.expression) is None:
                    bits = bloom.bit_num
                    found[topic].append((group, row.expression, bloom.bit_pos))
        self._publish({topic: (bits, rows) if rows else None for topic, rows in found.items()})

"""The statistics of RocketMQ's broker, with its names and keys (`BrokerStatsManager`).

The Rust data plane counts the requests that it serves, and hands the counts over before every
sample and every query. Processors count their own requests here.

RocketMQ also has items that its open source never counts (COMMERCIAL_*, *_FROM_DISK_*) and gauges
that no request can read (GROUP_GET_FALL_SIZE, GROUP_GET_FALL_TIME). As in RocketMQ, the answer for
both is "not exist". GROUP_GET_FALL_SIZE is kept even so, to stop groups that read too slowly.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

from mqcommon import names
from mqcommon.wire.bodies.groups import BrokerStatsData, BrokerStatsItem
from mqserver.broker.stats.items import ITEMS_MAX, Items
from mqserver.config.settings import BrokerSettings
from mqserver.runtime.data_plane import Traffic

TOPIC_PUT_NUMS, TOPIC_PUT_SIZE = "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE"
QUEUE_PUT_NUMS, QUEUE_PUT_SIZE = "QUEUE_PUT_NUMS", "QUEUE_PUT_SIZE"
GROUP_GET_NUMS, GROUP_GET_SIZE = "GROUP_GET_NUMS", "GROUP_GET_SIZE"
QUEUE_GET_NUMS, QUEUE_GET_SIZE = "QUEUE_GET_NUMS", "QUEUE_GET_SIZE"
GROUP_GET_LATENCY, SNDBCK_PUT_NUMS = "GROUP_GET_LATENCY", "SNDBCK_PUT_NUMS"
GROUP_GET_FALL_SIZE = "GROUP_GET_FALL_SIZE"
BROKER_PUT_NUMS, BROKER_GET_NUMS = "BROKER_PUT_NUMS", "BROKER_GET_NUMS"

_QUEUE_FIRST = frozenset({GROUP_GET_LATENCY, GROUP_GET_FALL_SIZE})
"""Items whose key begins with the queue id."""


class Counted(NamedTuple):
    """The items that are counted besides the plain ones.

    cluster: the key of BROKER_*. queues: count per queue (`enableDetailStat`). deliveries: count
    deliveries of the delay service (`enableScheduleMessageStats`). delay_levels: number of delay
    levels. light: count all light queues as one, and their groups as one (`enableLmq`).
    """

    cluster: str
    queues: bool = True
    deliveries: bool = True
    delay_levels: int = 18
    light: bool = False


class Statistics:
    """All items of one broker. Methods may be called from any thread.

    now_ms: monotonic. items_max: `statsItemMax`.
    """

    def __init__(
        self, counted: Counted, now_ms: Callable[[], int], items_max: int = ITEMS_MAX
    ) -> None:
        self._counted = counted
        self._items = Items(now_ms, items_max)
        self._take: Callable[[], list[Traffic]] | None = None

    def follow(self, take: Callable[[], list[Traffic]]) -> None:
        """Count the requests of the data plane; `take` returns the counts since its last call."""
        self._take = take

    # --- counting

    def put(self, topic: str, messages: int, size: int, delay_level: int = 0) -> None:
        """Count a stored send. messages: number of messages; size: bytes of their records."""
        if delay_level > 0:
            queue_id = min(delay_level, self._counted.delay_levels) - 1
            self._put(names.SCHEDULE_TOPIC, queue_id, (1, messages, size))
        else:
            self._put(topic, -1, (1, messages, size))

    def got(
        self,
        topic: str,
        group: str,
        messages: int,
        size: int,
        queue_id: int = -1,
        behind_bytes: int = 0,
    ) -> None:
        """Count a read that found messages.

        queue_id: the queue of a pull; -1 if no client waited for the read. behind_bytes: bytes of
        the log after the last message read.
        """
        self._get(topic, group, queue_id, (1, messages, size, 0, behind_bytes))

    def sent_back(self, group: str, topic: str, size: int, delay_level: int) -> None:
        """Count a message that a consumer sent back; size: bytes of its new record."""
        if delay_level > 0:
            queue_id = min(delay_level, self._counted.delay_levels) - 1
            self._put_topic(names.SCHEDULE_TOPIC, queue_id, (1, 1, size))
        self._items.add(SNDBCK_PUT_NUMS, self._key(topic, group), 1)

    # --- looking

    def sample(self) -> None:
        """Take the samples that are due; call it every 10 s."""
        self._collect()
        self._items.sample()

    def view(self, name: str, key: str) -> BrokerStatsData | None:
        """An item over the last minute, hour and day; None if the item does not exist."""
        self._collect()
        return self._items.view(name, key)

    def moved(self, period: str) -> list[tuple[str, str, BrokerStatsItem]]:
        """The items that changed in the last "minute", "hour" or "day": name, key, sums."""
        return self._items.moved(period)

    def totals(self, name: str) -> dict[str, int]:
        """The totals of the items of a name since the broker's start, by key."""
        self._collect()
        return self._items.totals(name)

    def consume_tps(self, group: str, topic: str) -> float:
        """Messages per second that a group read of a topic in the last minute."""
        return self._items.tps(GROUP_GET_NUMS, self._key(topic, group))

    def slow_groups(self, threshold: int) -> dict[str, int]:
        """The backlog of each group whose last pull of a queue left more than `threshold` bytes
        of the log unread, in bytes."""
        found: dict[str, int] = {}
        self._collect()
        for key, behind in self._items.moments(GROUP_GET_FALL_SIZE).items():
            group = key.rpartition("@")[2]
            if behind > threshold:
                found[group] = max(behind, found.get(group, 0))
        return found

    def forget_topic(self, topic: str) -> None:
        """Drop the items of a deleted topic (`autoDeleteUnusedStats`)."""

        def is_over(name: str, key: str) -> bool:
            if name in (BROKER_PUT_NUMS, BROKER_GET_NUMS):
                return False
            return topic == key.split("@")[1 if name in _QUEUE_FIRST else 0]

        self._items.forget(is_over)

    def forget_group(self, group: str) -> None:
        """Drop the items of a deleted group (`autoDeleteUnusedStats`)."""
        self._items.forget(lambda _name, key: "@" in key and key.rpartition("@")[2] == group)

    # --- items

    def _collect(self) -> None:
        if self._take is None:
            return
        fallen: dict[tuple[str, str, int], int] = {}
        for kind, topic, group, queue_id, sums in self._take():
            times, messages, size, wait_ms, behind = sums
            if kind == "get":
                key = topic, group, queue_id
                fallen[key] = max(behind, fallen.get(key, 0))
                self._get(*key, (times, messages, size, wait_ms, fallen[key]))
            elif kind == "put":
                self._put(topic, queue_id, (times, messages, size))
            elif self._counted.deliveries:
                self._put(topic, -1, (times, messages, size))
                self._delivered(queue_id, times, messages, size)

    def _put(self, topic: str, queue_id: int, sums: tuple[int, int, int]) -> None:
        self._put_topic(topic, queue_id, sums)
        # RocketMQ counts no requests here, so the average stays 0.
        self._items.add(BROKER_PUT_NUMS, self._counted.cluster, sums[1], 0)

    def _put_topic(self, topic: str, queue_id: int, sums: tuple[int, int, int]) -> None:
        times, messages, size = sums
        add = self._items.add
        add(TOPIC_PUT_NUMS, topic, messages, times)
        add(TOPIC_PUT_SIZE, topic, size, times)
        if queue_id >= 0 and self._counted.queues:
            add(QUEUE_PUT_NUMS, f"{topic}@{queue_id}", messages, times)
            add(QUEUE_PUT_SIZE, f"{topic}@{queue_id}", size, times)

    def _get(
        self, topic: str, group: str, queue_id: int, sums: tuple[int, int, int, int, int]
    ) -> None:
        times, messages, size, wait_ms, behind = sums
        self._group_got(topic, group, times, messages, size)
        add = self._items.add
        add(BROKER_GET_NUMS, self._counted.cluster, messages, 0)
        if queue_id >= 0:
            key = f"{queue_id}@{self._key(topic, group)}"
            add(GROUP_GET_LATENCY, key, wait_ms, times)
            self._items.set(GROUP_GET_FALL_SIZE, key, behind)

    def _delivered(self, queue_id: int, times: int, messages: int, size: int) -> None:
        self._group_got(names.SCHEDULE_TOPIC, names.SCHEDULE_GROUP, times, messages, size)
        if self._counted.queues:
            key = f"{names.SCHEDULE_TOPIC}@{queue_id}@{names.SCHEDULE_GROUP}"
            self._items.add(QUEUE_GET_NUMS, key, messages, times)
            self._items.add(QUEUE_GET_SIZE, key, size, times)

    def _group_got(self, topic: str, group: str, times: int, messages: int, size: int) -> None:
        key = self._key(topic, group)
        self._items.add(GROUP_GET_NUMS, key, messages, times)
        self._items.add(GROUP_GET_SIZE, key, size, times)

    def _key(self, topic: str, group: str) -> str:
        if self._counted.light:
            light = names.LIGHT_PREFIX
            topic, group = (light if n.startswith(light) else n for n in (topic, group))
        return f"{topic}@{group}"


def statistics_of(settings: BrokerSettings) -> Statistics:
    """Empty statistics for a broker with these settings."""
    counted = Counted(
        settings.broker_cluster_name,
        settings.enable_detail_stat,
        settings.enable_schedule_message_stats,
        len(settings.message_delay_level.split()),
        settings.enable_lmq,
    )
    return Statistics(counted, lambda: time.monotonic_ns() // 1_000_000, settings.stats_item_max)

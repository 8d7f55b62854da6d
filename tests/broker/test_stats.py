"""Statistics: RocketMQ's windows under an injected clock, and the counters of each event."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections import deque

import pytest

from mqcommon.wire.bodies.groups import BrokerStatsData, BrokerStatsItem
from mqserver.broker.stats import items as module
from mqserver.broker.stats.counts import Counts
from mqserver.broker.stats.items import Items, Window
from mqserver.broker.stats.statistics import Counted, Statistics
from mqserver.runtime.data_plane import Traffic
from tests.common.wire.golden import FOLDER, frames

ZERO = BrokerStatsItem()


class Clock:
    """Monotonic milliseconds, moved by hand."""

    def __init__(self) -> None:
        self.now_ms = 5_000

    def __call__(self) -> int:
        return self.now_ms


class Sampled:
    """Items that are sampled every 10 s."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.items = Items(self.clock)
        self.items.sample()

    def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds // 10):
            self.clock.now_ms += 10_000
            self.items.sample()

    def view(self, key: str = "T") -> BrokerStatsData:
        found = self.items.view("NAME", key)
        assert found is not None
        return found


@pytest.fixture
def sampled() -> Sampled:
    return Sampled()


def test_an_item_exists_at_once_and_has_numbers_after_a_sample(sampled: Sampled) -> None:
    assert sampled.items.view("NAME", "T") is None
    sampled.items.add("NAME", "T", 6, 3)
    assert sampled.view() == BrokerStatsData(ZERO, ZERO, ZERO)
    sampled.pass_seconds(10)
    assert sampled.view().stats_minute == BrokerStatsItem(6, 0.6, 2.0)
    assert sampled.items.tps("NAME", "T") == 0.6
    assert sampled.items.view("OTHER", "T") is None
    assert sampled.items.tps("OTHER", "T") == 0.0


def test_a_minute_forgets_what_is_older(sampled: Sampled) -> None:
    sampled.items.add("NAME", "T", 6)
    sampled.pass_seconds(60)
    assert sampled.view().stats_minute == BrokerStatsItem(6, 0.1, 6.0)
    sampled.pass_seconds(10)
    assert sampled.view().stats_minute == ZERO
    sampled.items.add("NAME", "T", 120, 2)
    sampled.pass_seconds(30)
    assert sampled.view().stats_minute == BrokerStatsItem(120, 2.0, 60.0)


def test_the_hour_and_the_day_have_their_own_samples(sampled: Sampled) -> None:
    sampled.items.add("NAME", "T", 600)
    sampled.pass_seconds(590)
    assert sampled.view().stats_hour == ZERO
    sampled.pass_seconds(10)
    assert sampled.view().stats_hour == BrokerStatsItem(600, 1.0, 600.0)
    assert sampled.view().stats_day == ZERO
    sampled.pass_seconds(3_000)
    assert sampled.view().stats_day == BrokerStatsItem(600, 600 / 3_600, 600.0)
    sampled.pass_seconds(600)
    assert sampled.view().stats_hour == ZERO
    assert sampled.view().stats_day.sum == 600


def test_windows_are_what_rocketmqs_lists_would_be() -> None:
    """Java keeps a list for each item: a zero from one period ago, then samples, at most 7."""
    chance = random.Random(7)
    clock = Clock()
    items = Items(clock)
    values: dict[str, list[int]] = {}
    lists: dict[str, deque[tuple[int, int, int]]] = {}
    for _ in range(60):
        for key in chance.sample("abcdefgh", 2):
            value = chance.randrange(100)
            items.add("NAME", key, value, 2)
            total = values.setdefault(key, [0, 0])
            total[0] += value
            total[1] += 2
        clock.now_ms += 10_000 + chance.randrange(3)
        items.sample()
        for key, (total_value, total_times) in values.items():
            if key not in lists:
                lists[key] = deque([(clock.now_ms - 10_000, 0, 0)], maxlen=7)
            lists[key].append((clock.now_ms, total_value, total_times))
        for key, kept in lists.items():
            (begin_ms, first, _), (end_ms, last, _) = kept[0], kept[-1]
            times = kept[-1][2] - kept[0][2]
            expected = BrokerStatsItem(
                last - first,
                (last - first) * 1000.0 / (end_ms - begin_ms),
                (last - first) / times if times else 0.0,
            )
            found = items.view("NAME", key)
            assert found is not None
            assert found.stats_minute == expected


def test_a_late_sample_keeps_the_rate() -> None:
    window = Window(10_000, 7)

    def take(now_ms: int, value: int) -> None:
        counts = Counts()
        counts.append(value, 0)
        window.take(now_ms, counts)

    take(0, 0)
    take(35_000, 35)
    assert window.of(0) == BrokerStatsItem(35, 35 / 45, 0.0)
    take(39_999, 35)
    assert window.of(0).tps == 35 / 45
    take(40_000, 35)
    assert window.of(0).tps == 35 / 50


def test_samples_share_what_did_not_change() -> None:
    clock = Clock()
    items = Items(clock)
    tracemalloc.start()
    try:
        for number in range(20_000):
            items.add("NAME", str(number), 1)
        items.sample()
        before, _ = tracemalloc.get_traced_memory()
        for number in range(6):
            items.add("NAME", str(number), 1)
            clock.now_ms += 600_000
            items.sample()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # The first sample is 320 kB in all three windows together.
    assert after - before < 100_000
    assert {key for _, key, _ in items.moved("minute")} == {str(n) for n in range(6)}
    view = items.view("NAME", "3")
    assert view is not None
    assert view.stats_minute.sum == 1


def test_forgotten_items_leave_the_others_as_they_were(
    sampled: Sampled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_DEAD_ROWS_MAX", 0)
    sampled.items.add("NAME", "gone", 1)
    sampled.items.add("NAME", "gone too", 1)
    sampled.items.add("NAME", "kept", 30, 3)
    sampled.pass_seconds(20)
    sampled.items.add("NAME", "younger", 40, 2)
    sampled.pass_seconds(10)
    before = sampled.view("kept"), sampled.view("younger")
    sampled.items.forget(lambda _, key: key.startswith("gone"))
    assert (sampled.view("kept"), sampled.view("younger")) == before
    assert sampled.items.view("NAME", "gone") is None
    sampled.items.add("NAME", "gone", 5)
    assert sampled.view("gone").stats_minute == ZERO
    sampled.items.add("NAME", "kept", 30, 3)
    sampled.pass_seconds(10)
    assert sampled.view("kept").stats_minute == BrokerStatsItem(60, 1.5, 10.0)
    assert sampled.view("gone").stats_minute == BrokerStatsItem(5, 0.5, 5.0)


class Room:
    """Statistics over a scripted data plane."""

    def __init__(self, counted: Counted | None = None) -> None:
        self.clock = Clock()
        self.stats = Statistics(counted or Counted("C"), self.clock)
        self.stats.sample()
        self.rows: list[Traffic] = []
        self.stats.follow(self.taken)

    def taken(self) -> list[Traffic]:
        rows, self.rows = self.rows, []
        return rows

    def sums(self, *items: str) -> list[tuple[int, float] | None]:
        """Sum and average of items "NAME KEY" after the next sample."""
        self.clock.now_ms += 10_000
        self.stats.sample()
        found: list[tuple[int, float] | None] = []
        for item in items:
            view = self.stats.view(*item.split(" "))
            minute = view.stats_minute if view else None
            found.append((minute.sum, minute.avgpt) if minute else None)
        return found


def test_what_the_plane_served_is_counted_under_rocketmqs_keys() -> None:
    room = Room()
    room.rows = [
        ("put", "T", "", -1, [2, 5, 500, 0, 0]),
        ("put", "T", "", -1, [1, 1, 100, 0, 0]),
        ("get", "T", "G", 3, [2, 6, 600, 8, 0]),
    ]
    assert room.sums("TOPIC_PUT_NUMS T", "TOPIC_PUT_SIZE T") == [(6, 2.0), (600, 200.0)]
    names = ("GROUP_GET_NUMS T@G", "GROUP_GET_SIZE T@G", "GROUP_GET_LATENCY 3@T@G")
    assert room.sums(*names) == [(6, 3.0), (600, 300.0), (8, 4.0)]
    assert room.sums("BROKER_PUT_NUMS C", "BROKER_GET_NUMS C") == [(6, 0.0), (6, 0.0)]
    assert room.sums("QUEUE_PUT_NUMS T@-1", "QUEUE_GET_NUMS T@3@G") == [None, None]
    assert room.stats.consume_tps("G", "T") == 6 / 40


def test_delayed_messages_count_for_delay_queue_and_target() -> None:
    room = Room()
    room.rows = [
        ("put", "SCHEDULE_TOPIC_XXXX", "", 2, [1, 1, 100, 0, 0]),
        ("delivery", "T", "", 2, [1, 1, 90, 0, 0]),
    ]
    room.stats.put("T", 1, 100, delay_level=99)
    assert room.sums(
        "TOPIC_PUT_NUMS SCHEDULE_TOPIC_XXXX",
        "QUEUE_PUT_NUMS SCHEDULE_TOPIC_XXXX@2",
        "QUEUE_PUT_SIZE SCHEDULE_TOPIC_XXXX@17",
        "QUEUE_GET_SIZE SCHEDULE_TOPIC_XXXX@2@SCHEDULE_CONSUMER",
        "GROUP_GET_NUMS SCHEDULE_TOPIC_XXXX@SCHEDULE_CONSUMER",
        "TOPIC_PUT_NUMS T",
        "BROKER_PUT_NUMS C",
        "BROKER_GET_NUMS C",
    ) == [(2, 1.0), (1, 1.0), (100, 100.0), (90, 90.0), (1, 1.0), (1, 1.0), (3, 0.0), None]


def test_what_is_switched_off_is_not_counted() -> None:
    room = Room(Counted("C", queues=False, deliveries=False))
    room.rows = [
        ("put", "SCHEDULE_TOPIC_XXXX", "", 2, [1, 1, 100, 0, 0]),
        ("delivery", "T", "", 2, [1, 1, 90, 0, 0]),
    ]
    names = ("QUEUE_PUT_NUMS SCHEDULE_TOPIC_XXXX@2", "TOPIC_PUT_NUMS T")
    assert room.sums(*names, "TOPIC_PUT_NUMS SCHEDULE_TOPIC_XXXX") == [None, None, (1, 1.0)]


def test_messages_sent_back() -> None:
    room = Room()
    room.stats.sent_back("G", "T", 120, 3)
    room.stats.sent_back("G", "T", 120, 0)
    names = ("SNDBCK_PUT_NUMS T@G", "TOPIC_PUT_SIZE SCHEDULE_TOPIC_XXXX", "BROKER_PUT_NUMS C")
    assert room.sums(*names) == [(2, 1.0), (120, 120.0), None]


def test_light_queues_share_their_items() -> None:
    room = Room(Counted("C", light=True))
    room.stats.got("%LMQ%a", "%LMQ%a", 2, 20, 0)
    room.stats.got("%LMQ%b", "%LMQ%b", 3, 30, 0)
    assert room.sums("GROUP_GET_NUMS %LMQ%@%LMQ%") == [(5, 2.5)]
    assert room.stats.consume_tps("%LMQ%c", "%LMQ%d") == 0.5


def test_groups_that_are_too_far_behind() -> None:
    room = Room()
    room.rows = [
        ("get", "T", "slow", 0, [1, 1, 1, 0, 500]),
        ("get", "T", "slow", 0, [1, 1, 1, 0, 10]),
        ("get", "T", "slow", 1, [1, 1, 1, 0, 700]),
        ("get", "T", "fast", 0, [1, 1, 1, 0, 400]),
    ]
    assert room.stats.slow_groups(400) == {"slow": 700}
    room.stats.got("T", "slow", 1, 1, 1, behind_bytes=0)
    assert room.stats.slow_groups(400) == {"slow": 500}
    assert room.sums("GROUP_GET_FALL_SIZE 0@T@slow") == [None], "nobody can ask for it"
    room.stats.forget_group("slow")
    assert room.stats.slow_groups(0) == {"fast": 400}


def test_items_go_with_their_topic_or_group() -> None:
    room = Room()
    for topic in ("T", "U"):
        room.stats.put(topic, 1, 10)
        for group in ("G", "H"):
            room.stats.got(topic, group, 1, 10, 0)
            room.stats.sent_back(group, topic, 10, 0)
    room.stats.forget_topic("T")
    room.stats.forget_group("H")
    gone = (
        "TOPIC_PUT_NUMS T",
        "GROUP_GET_SIZE T@G",
        "GROUP_GET_LATENCY 0@T@G",
        "SNDBCK_PUT_NUMS U@H",
        "GROUP_GET_LATENCY 0@U@H",
    )
    assert room.sums(*gone) == [None] * len(gone)
    kept = ("TOPIC_PUT_NUMS U", "GROUP_GET_LATENCY 0@U@G", "BROKER_PUT_NUMS C")
    assert None not in room.sums(*kept)


def test_bodies_are_written_as_rocketmq_writes_them() -> None:
    """Each recorded body, compared with a StatsItem after the same samples."""
    recorded = [
        frame
        for frame in frames(FOLDER / "raw-broker.jsonl.gz")
        if frame.line.get("reply_to") == 315 and frame.line.get("body_text")
    ]
    assert recorded
    for frame in recorded:
        text = frame.line["body_text"]
        hour = json.loads(text)["statsHour"]
        window = BrokerStatsItem(hour["sum"], hour["tps"], hour["avgpt"])
        # 31 sends of 35 messages within 1,199,999 ms
        assert (window.sum / 31, window.sum * 1000.0 / 1_199_999) == (window.avgpt, window.tps)
        assert BrokerStatsData(ZERO, window, ZERO).to_json().decode() == text

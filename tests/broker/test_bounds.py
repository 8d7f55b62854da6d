"""Limits on the topics, groups and clients that requests can create, and the errors beyond them."""

from __future__ import annotations

from typing import Any

import pytest

from mqcommon.wire.bodies.heartbeat import ConsumerData, SubscriptionData
from mqcommon.wire.bodies.topics import TopicConfig
from mqserver.broker.state import producers as producers_module
from mqserver.broker.state.bounds import (
    BURST_SECONDS,
    MEMBERSHIP_BYTES,
    SOURCES_MAX,
    Bounds,
    Bucket,
    DefaultLimits,
    Footprints,
)
from mqserver.broker.state.consumers import Consumers
from mqserver.broker.state.filters import BloomShape, Filters
from mqserver.broker.state.groups import Groups
from mqserver.broker.state.members import Member
from mqserver.broker.state.producers import Producers
from mqserver.broker.state.topics import NewTopic, Topics, built_in
from mqserver.broker.state.unasked import Unasked, read
from mqserver.broker.stats.items import Items
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.config.settings import broker_settings
from mqserver.runtime.data_plane import Tables
from mqserver.runtime.processor_api import Refused
from mqserver.runtime.refusals import LOG_PAUSE_SECONDS

TEMPLATE = NewTopic("TBW102", 4, unit=False)
MEMBER = Member("c@1", 1, "127.0.0.1:5", 0, 401, 0.0)


class Clock:
    """Monotonic seconds, by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def bounded(**limits: Any) -> tuple[Bounds, Clock]:
    clock = Clock()
    return Bounds(lambda: DefaultLimits(**limits), clock), clock


def topics_of(bounds: Bounds) -> Topics:
    settings = broker_settings(load(BROKER, flags=pairs({"brokerName": "b"}, "t")))
    topics = Topics(
        built_in(settings),
        Tables(),
        lambda: 7,
        lambda _: None,
        lambda: None,
        bounds=bounds,
    )
    topics.load(None)
    return topics


def groups_of(bounds: Bounds) -> Groups:
    groups = Groups(Tables(), lambda: 7, lambda _: None, lambda: True, bounds=bounds)
    groups.load(None)
    return groups


def refusal(call: Any, *arguments: Any) -> tuple[int, str]:
    with pytest.raises(Refused) as error:
        call(*arguments)
    return error.value.response.code, error.value.response.remark or ""


def test_sends_create_topics_up_to_a_limit_administrators_beyond() -> None:
    bounds, _ = bounded(auto_create_topic_max=3)
    topics = topics_of(bounds)
    topics.put(TopicConfig("Admins"))
    topics.ensure("%RETRY%g", 1)  # belongs to its group
    for name in ("One", "Two"):
        assert topics.create_for_send(name, TEMPLATE, True) is not None
    code, remark = refusal(topics.create_for_send, "Three", TEMPLATE, True)
    assert code == 17
    assert "topic[Three] not exist" in remark
    assert "autoCreateTopicMax=3" in remark
    topics.put(TopicConfig("Admins2"))
    assert topics.create_for_send("One", TEMPLATE, True) is not None, "it is there"
    for name in ("Admins", "Admins2"):
        topics.remove(name)
    assert topics.create_for_send("Three", TEMPLATE, True) is not None
    assert bounds.counts() == {"autoCreateTopicMax": 1}


def test_sends_create_topics_at_a_rate() -> None:
    bounds, clock = bounded(auto_create_topic_per_second=2)
    topics = topics_of(bounds)
    for number in range(2 * BURST_SECONDS):
        topics.create_for_send(f"T{number}", TEMPLATE, True)
    code, remark = refusal(topics.create_for_send, "More", TEMPLATE, True)
    assert code == 2
    assert "autoCreateTopicPerSecond=2" in remark
    clock.now += 0.5
    assert topics.create_for_send("More", TEMPLATE, True) is not None
    assert refusal(topics.create_for_send, "Much", TEMPLATE, True)[0] == 2


def test_a_bucket_is_full_after_a_pause_and_never_fuller() -> None:
    clock = Clock()
    bucket = Bucket(lambda: 3, lambda rate: rate, clock)
    for _ in range(2):
        clock.now += 1_000
        assert [bucket.take() for _ in range(3 * BURST_SECONDS + 1)].count(True) == 30


def test_clients_create_groups_up_to_a_number() -> None:
    bounds, _ = bounded(auto_create_group_max=9)
    groups = groups_of(bounds)  # including the seven system groups
    assert groups.find("one")
    assert groups.find("two")
    code, remark = refusal(groups.find, "three")
    assert code == 26
    assert "autoCreateGroupMax=9" in remark
    assert groups.find("one"), "known ones are found"
    assert groups.get("three") is None
    assert groups.find("../../x") is None
    assert groups.find("g" * 256) is None


def consumer(group: str, *texts: str) -> ConsumerData:
    rows = [SubscriptionData(f"T{n}", text) for n, text in enumerate(texts)]
    return ConsumerData(group, subscription_data_set=rows)


def test_a_connection_is_in_so_many_groups() -> None:
    bounds, _ = bounded(client_group_max=2)
    footprints = Footprints(bounds)
    consumers = Consumers(Tables(), lambda *_: None, footprints=footprints)
    producers = Producers(footprints)
    consumers.register(consumer("a"), MEMBER)
    producers.register("a", MEMBER)
    code, remark = refusal(consumers.register, consumer("b"), MEMBER)
    assert (code, "clientGroupMax" in remark) == (1, True)
    assert refusal(producers.register, "b", MEMBER)[0] == 1
    consumers.register(consumer("a", "x"), MEMBER)
    consumers.unregister("a", MEMBER.connection)
    producers.register("b", MEMBER)
    consumers.close(MEMBER.connection)
    producers.close(MEMBER.connection)
    assert footprints.total() == 0
    assert not producers.all()


def test_heartbeat_data_is_bounded_per_client_and_in_total() -> None:
    bounds, _ = bounded(max_heartbeat_bytes=750, max_subscription_bytes=2_400)
    footprints = Footprints(bounds)
    consumers = Consumers(Tables(), lambda *_: None, footprints=footprints)
    other = Member("c@2", 2, "127.0.0.1:6", 0, 401, 0.0)
    consumers.register(consumer("a", "x" * 600), MEMBER)
    code, remark = refusal(consumers.register, consumer("b", "x" * 600), MEMBER)
    assert (code, "maxHeartbeatBytes" in remark) == (1, True)
    assert consumers.get("b") is None
    code, remark = refusal(consumers.register, consumer("b", "x" * 800), other)
    assert (code, "maxSubscriptionBytes" in remark) == (1, True)
    consumers.register(consumer("a", "x"), MEMBER)  # less than before
    consumers.register(consumer("b", "x" * 800), other)
    for connection in (1, 2):
        consumers.close(connection)
    assert footprints.total() == 0


def test_producer_groups_without_members_are_forgotten_one_day(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers_module, "EMPTY_GROUPS_MAX", 2)
    producers = Producers()
    for name in ("a", "b", "c"):
        producers.register(name, MEMBER)
        producers.close(MEMBER.connection)
    assert [producers.knows(name) for name in ("a", "b", "c")] == [False, True, True]
    producers.register("b", MEMBER)
    for name in ("d", "e"):
        other = Member("c@2", 2, "127.0.0.1:6", 0, 401, 0.0)
        producers.register(name, other)
        producers.close(2)
    assert producers.knows("b"), "it has a member again"
    assert not producers.knows("c")


def sql(topic: str, text: str) -> SubscriptionData:
    return SubscriptionData(topic, text, expression_type="SQL92")


def test_dead_filters_make_room_for_new_ones() -> None:
    now_ms = [1_000]
    filters = Filters(
        BloomShape(20, 32), 1 << 40, lambda: now_ms[0], lambda _: None, None, lambda: 3_000
    )

    def kept() -> str:
        return filters.render().decode()

    filters.follow("first", [sql("T", "a > 1")])
    filters.follow("first", [])
    for number in range(20):
        now_ms[0] += 1
        filters.follow(f"g{number}", [sql("T", f"a > {number}")])
    assert '"first"' not in kept(), "the only dead one went"
    assert '"g0"' in kept()
    assert '"g19"' not in kept(), "no living one goes for it"
    filters.follow("g0", [])
    filters.follow("late", [sql("T", "b > 1")])
    assert '"late"' in kept()
    assert '"g0"' not in kept()


def test_items_beyond_the_number_are_not_counted() -> None:
    items = Items(lambda: 0, items_max=2)
    for key in ("a", "b", "c", "a"):
        items.add("N", key, 1)
        items.set("M", key, 1)
    assert items.totals("N") == {"a": 2, "b": 1}
    assert set(items.moments("M")) == {"a", "b"}


def test_a_bound_is_logged_once_in_a_while(caplog: pytest.LogCaptureFixture) -> None:
    bounds, clock = bounded()
    for _ in range(3):
        bounds.refused(1, "aSetting", "some words")
    assert [record.getMessage() for record in caplog.records] == ["aSetting is reached: some words"]
    clock.now += LOG_PAUSE_SECONDS
    bounds.refused(1, "aSetting", "some words")
    assert len(caplog.records) == 2
    assert bounds.counts() == {"aSetting": 4}


STRANGER, OTHER, OURS = "203.0.113.1:9", "203.0.113.2:9", "127.0.0.1:9"


def shared(**limits: Any) -> Bounds:
    """Bounds of a broker that trusts its own machine."""
    made = DefaultLimits(**limits)
    return Bounds(lambda: made, Clock(), lambda by: by.startswith("127."))


def test_one_address_creates_half_of_the_groups_and_others_go_on() -> None:
    groups = groups_of(shared(auto_create_group_max=40))
    system = len(groups.all().subscription_group_table)
    for number in range(20):
        assert groups.find(f"s{number}", STRANGER)
    code, remark = refusal(groups.find, "s20", STRANGER)
    assert code == 26
    assert "one address may take 20 (sourceSharePercent=50)" in remark
    assert groups.find("s3", STRANGER), "what is there goes on"
    for number in range(40 - system - 20):
        assert groups.find(f"o{number}", OTHER if number % 2 else OURS)
    assert "autoCreateGroupMax=40" in refusal(groups.find, "another", OURS)[1]


def test_this_machine_has_no_share_and_100_percent_is_none() -> None:
    for bounds, by in (
        (shared(auto_create_topic_max=6), OURS),
        (shared(auto_create_topic_max=6, source_share_percent=100), STRANGER),
    ):
        topics = topics_of(bounds)
        for number in range(6):
            assert topics.create_for_send(f"T{number}", TEMPLATE, True, by)
    topics = topics_of(shared(auto_create_topic_max=6))
    for number in range(3):
        assert topics.create_for_send(f"T{number}", TEMPLATE, True, STRANGER)
    code, remark = refusal(topics.create_for_send, "T3", TEMPLATE, True, STRANGER)
    assert code == 17
    assert "clients at 203.0.113.1 had 3 made" in remark
    assert topics.create_for_send("T4", TEMPLATE, True, OTHER)


def test_one_address_creates_topics_at_half_of_the_rate() -> None:
    clock, limits = Clock(), DefaultLimits(auto_create_topic_per_second=4)
    bounds = Bounds(lambda: limits, clock, lambda by: by.startswith("127."))
    topics = topics_of(bounds)

    def made(by: str, name: str) -> int:
        """How many topics the clients of an address make before they are refused."""
        for number in range(100):
            try:
                topics.create_for_send(f"{name}{number}", TEMPLATE, True, by)
            except Refused as refused:
                assert refused.response.code == 2
                assert "(sourceSharePercent=50)" in (refused.response.remark or "")
                return number
        raise AssertionError("never refused")

    assert made(STRANGER, "S") == 2 * BURST_SECONDS
    assert made(OURS, "L") == 2 * BURST_SECONDS, "what the stranger left, of 4 a second"
    clock.now += 1
    assert [made(STRANGER, "Later"), made(OTHER, "O")] == [2, 2]
    clock.now += BURST_SECONDS
    assert made(OURS, "More") == 4 * BURST_SECONDS, "this machine has no share"


def test_a_bucket_remembers_a_bounded_number_of_addresses() -> None:
    bucket = Bucket(lambda: 1_000_000, lambda rate: rate // 2, Clock())
    for number in range(3 * SOURCES_MAX):
        assert bucket.take(f"10.0.{number // 256}.{number % 256}")
    assert len(bucket._of_sources) == SOURCES_MAX


def test_a_share_is_remembered_over_a_restart_and_given_back() -> None:
    bounds = shared(auto_create_topic_max=4)
    before = Unasked(bounds, lambda: 7, lambda _: None)
    before.note("topics", "A", STRANGER)
    before.note("topics", "B", STRANGER)
    after = Unasked(bounds, lambda: 7, lambda _: None)
    after.load(read(before.render()))
    assert after.share_is_full("topics", STRANGER, 4)
    assert after.share_is_full("topics", OTHER, 4) is None
    after.forget("topics", "A")  # deleted, or an administrator changed it
    assert after.share_is_full("topics", STRANGER, 4) is None
    with pytest.raises(ValueError):
        read(b"nonsense")


def test_subscriptions_of_one_address_take_half_of_the_memory() -> None:
    bounds = shared(max_subscription_bytes=4 * (MEMBERSHIP_BYTES + 1))
    footprints = Footprints(bounds)
    footprints.take(1, "consumer", "a", by=STRANGER)
    footprints.take(2, "consumer", "b", by=STRANGER)
    code, remark = refusal(footprints.take, 3, "consumer", "c", 0, STRANGER)
    assert code == 1
    assert "the clients at 203.0.113.1 take their part of maxSubscriptionBytes" in remark
    footprints.take(4, "consumer", "d", by=OTHER)
    footprints.give_back(1, "consumer", "a")
    footprints.take(3, "consumer", "c", by=STRANGER)

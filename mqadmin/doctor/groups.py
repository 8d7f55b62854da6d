"""Checks of groups: without members, without subscription, that do not acknowledge or only fail."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mqadmin.doctor.facts import Facts
from mqadmin.doctor.findings import Finding
from mqcommon.message import MessageQueue
from mqcommon.names import is_of_a_group, is_system_group, retry_groups, retry_topic
from mqcommon.wire.bodies.groups import OffsetWrapper

__all__ = ["check_groups"]

HOUR_MS = 3_600_000
STUCK_ERROR_MS = 300_000
"""A group whose last consumed message is older than this does not only handle a slow message."""
FRUITLESS_SHARE = 0.5
"""A group that returns this share of the messages that it gets makes little progress."""
FRUITLESS_MIN = 10
"""Fewest messages of a minute that are judged."""

Offsets = Mapping[MessageQueue, OffsetWrapper]


def check_groups(facts: Facts, idle_hours: float) -> Iterator[Finding]:
    """All findings about groups. idle_hours: from when on an offline group counts as orphaned."""
    for group in facts.groups:
        yield from _disabled(facts, group)
        if group in facts.members:
            yield from _members(facts, group)
            yield from _stuck(facts, group)
        elif _is_offline(facts, group):
            yield from _orphan(facts, group, idle_hours)
    yield from _without_configuration(facts)
    yield from _fruitless(facts)
    for group, waiting in sorted(facts.dead_letters.items()):
        if waiting:
            yield Finding(
                "warning", "group.dead_letters", f"group {group}",
                f"{waiting} messages failed on every delivery and wait in %DLQ%{group}",
                f"mqadmin dlq peek -g {group}, mend the consumer, mqadmin dlq redrive -g {group}",
                waiting, "messages",
            )  # fmt: skip


def _without_configuration(facts: Facts) -> Iterator[Finding]:
    """Groups of which only the retry topic is left."""
    topics = sorted({topic for broker in facts.masters for topic in broker.topics})
    for group in sorted({*retry_groups(topics)} - {*facts.groups}):
        if not is_system_group(group):
            yield Finding(
                "info", "group.unknown", f"group {group}",
                "has a retry topic, and no broker has its configuration",
                f"if nobody needs it: mqadmin deleteTopic -c CLUSTER -t {retry_topic(group)}",
            )  # fmt: skip


def _is_offline(facts: Facts, group: str) -> bool:
    """Whether every master said that the group has no member."""
    wanted = f"members of group {group}"
    return not any(one.what == wanted for one in facts.unanswered)


def _disabled(facts: Facts, group: str) -> Iterator[Finding]:
    for broker in facts.masters:
        config = broker.groups.get(group)
        if config is not None and not config.consume_enable:
            yield Finding(
                "warning", "group.disabled", f"group {group}",
                f"may not consume at {broker.subject}: consumeEnable is false",
                f"if this is not on purpose: mqadmin updateSubGroup -b {broker.address} "
                f"-g {group} -s true",
            )  # fmt: skip


def _members(facts: Facts, group: str) -> Iterator[Finding]:
    connection = facts.members[group]
    if not connection.subscription_table:
        count = len(connection.connection_set)
        yield Finding(
            "warning", "group.subscription", f"group {group}",
            f"has {count} members online and subscribes to no topic",
            f"look at its program: mqadmin consumerConnection -g {group}",
            count, "members",
        )  # fmt: skip


def _orphan(facts: Facts, group: str, idle_hours: float) -> Iterator[Finding]:
    offsets = facts.progress(group)
    advice = f"if nobody needs it: mqadmin deleteSubGroup -c CLUSTER -g {group} -r true"
    if not offsets:
        yield Finding(
            "info", "group.unused", f"group {group}",
            "has a configuration, no member and no offset: it never consumed",
            advice,
        )  # fmt: skip
        return
    lag = _lag(offsets)
    last_ms = max(one.last_timestamp for one in offsets.values())
    idle_h = (facts.now_ms - last_ms) / HOUR_MS
    if lag and (last_ms <= 0 or idle_h >= idle_hours):
        since = "never" if last_ms <= 0 else f"stored {idle_h:.0f} hours ago"
        yield Finding(
            "warning", "group.orphan", f"group {group}",
            f"has offsets and no member; its last consumed message was {since}, "
            f"and {lag} messages wait",
            f"start its consumers; {advice}",
            lag, "messages",
        )  # fmt: skip
    elif idle_h >= idle_hours:
        yield Finding(
            "info", "group.orphan", f"group {group}",
            "has offsets, no member and no message to consume",
            advice,
        )  # fmt: skip


def _stuck(facts: Facts, group: str) -> Iterator[Finding]:
    """Members are online, messages wait, and no offset of a topic has moved between the samples."""
    before: dict[MessageQueue, OffsetWrapper] = {}
    after: dict[MessageQueue, OffsetWrapper] = {}
    for broker in facts.masters:
        if group in broker.first and group in broker.second:
            before |= broker.first[group]
            after |= broker.second[group]
    for topic in sorted({queue.topic for queue in after if not is_of_a_group(queue.topic)}):
        queues = [queue for queue in after if queue.topic == topic and queue in before]
        waiting = {queue: after[queue] for queue in queues if _lag({queue: after[queue]})}
        moved = any(after[q].consumer_offset != before[q].consumer_offset for q in queues)
        was = _lag({queue: before[queue] for queue in queues})
        if not waiting or moved or not was:
            continue
        lag = _lag(waiting)
        idle_ms = facts.now_ms - max(one.last_timestamp for one in waiting.values())
        is_error = lag > was and idle_ms >= STUCK_ERROR_MS
        yield Finding(
            "error" if is_error else "warning", "group.stuck", f"group {group}",
            f"acknowledges nothing of topic {topic}: {lag} messages wait "
            f"({lag - was:+d} in {facts.sample_s:g} s) and no offset has moved",
            f"look for a handler that hangs: mqadmin consumerStatus -g {group} -s",
            lag, "messages",
        )  # fmt: skip


def _fruitless(facts: Facts) -> Iterator[Finding]:
    for (topic, group), (returned, got) in sorted(facts.returned.items()):
        if returned.sum >= FRUITLESS_MIN and returned.sum >= FRUITLESS_SHARE * got.sum:
            yield Finding(
                "warning", "group.retries", f"group {group}",
                f"returned {returned.sum} messages of topic {topic} in the last minute, and got "
                f"{got.sum}: the deliveries fail",
                "read the log of its consumers; messages go to the dead-letter topic after the "
                "last try",
                returned.sum, "messages/min",
            )  # fmt: skip


def _lag(offsets: Offsets) -> int:
    return sum(max(one.broker_offset - one.consumer_offset, 0) for one in offsets.values())

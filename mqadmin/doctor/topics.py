"""Checks of topics: permissions, queues that nobody reads, topics that nobody uses."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from mqadmin.doctor.facts import Facts
from mqadmin.doctor.findings import Finding
from mqadmin.java_text import perm_text
from mqcommon.names import AUTO_CREATE_TOPIC, is_of_a_group
from mqcommon.wire.bodies.topics import TopicConfig

__all__ = ["check_topics"]

READ_WRITE = 6
HOUR_MS = 3_600_000


def check_topics(facts: Facts, idle_hours: float) -> Iterator[Finding]:
    """All findings about user topics. idle_hours: from when on a topic counts as unused."""
    on_brokers: dict[str, dict[str, TopicConfig]] = defaultdict(dict)
    for broker in facts.masters:
        for topic, config in broker.topics.items():
            if not is_of_a_group(topic) and topic != AUTO_CREATE_TOPIC:
                on_brokers[topic][broker.name] = config
    consumed = {queue.topic for group in facts.groups for queue in facts.progress(group)}
    for topic, configs in sorted(on_brokers.items()):
        yield from _permissions(topic, configs)
        yield from _unreadable(topic, configs)
        if topic not in consumed:
            yield from _unused(facts, topic, idle_hours)


def _permissions(topic: str, configs: dict[str, TopicConfig]) -> Iterator[Finding]:
    limited = {
        name: config.perm
        for name, config in sorted(configs.items())
        if config.perm & READ_WRITE != READ_WRITE
    }
    if limited:
        shown = ", ".join(f"{perm_text(perm)} on {name}" for name, perm in limited.items())
        name, perm = next(iter(limited.items()))
        yield Finding(
            "warning", "topic.permission", f"topic {topic}",
            f"has the permission {shown}, so clients cannot both send and consume there",
            "if this is not on purpose: mqadmin updateTopicPerm -b BROKER "
            f"-t {topic} -p {READ_WRITE}, with the address of {name}",
            perm,
        )  # fmt: skip


def _unreadable(topic: str, configs: dict[str, TopicConfig]) -> Iterator[Finding]:
    """Producers send to queues that no consumer gets."""
    worst = max(configs.values(), key=lambda config: config.write_queue_nums)
    least = min(configs.values(), key=lambda config: config.read_queue_nums)
    several = [c for c in configs.values() if c.write_queue_nums > c.read_queue_nums]
    if several:
        yield Finding(
            "error", "topic.queues", f"topic {topic}",
            f"has {worst.write_queue_nums} write queues and {least.read_queue_nums} read queues: "
            "messages in the queues above are not consumed",
            f"mqadmin updateTopic -c CLUSTER -t {topic} -r {worst.write_queue_nums} "
            f"-w {worst.write_queue_nums}",
            worst.write_queue_nums - least.read_queue_nums, "queues",
        )  # fmt: skip


def _unused(facts: Facts, topic: str, idle_hours: float) -> Iterator[Finding]:
    """No group has an offset in the topic, and nothing was sent to it for long."""
    asked = [broker.extents[topic] for broker in facts.masters if topic in broker.extents]
    extents = [extent for table in asked for extent in table.values()]
    if not extents or len(asked) < sum(topic in broker.topics for broker in facts.masters):
        return  # a broker did not say
    stored = sum(extent.max_offset - extent.min_offset for extent in extents)
    last_ms = max(extent.last_update_timestamp for extent in extents)
    idle_h = (facts.now_ms - last_ms) / HOUR_MS
    advice = f"if nobody needs it: mqadmin deleteTopic -c CLUSTER -t {topic}"
    if last_ms <= 0:
        what = "no group consumes it, and it has no message"
        yield Finding("info", "topic.unused", f"topic {topic}", what, advice, stored, "messages")
    elif idle_h >= idle_hours:
        yield Finding(
            "info", "topic.unused", f"topic {topic}",
            f"no group consumes it, and its last message came {idle_h:.0f} hours ago",
            advice, round(idle_h, 1), "hours",
        )  # fmt: skip

"""Rates and lags of topics and groups, from two samples of all offsets."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from mqadmin.report import Row
from mqadmin.unreached import Unreached
from mqclient.admin import Admin
from mqclient.engine.parallel import in_parallel
from mqclient.errors import RocketMQError
from mqcommon.message import MessageQueue
from mqcommon.names import (
    INNER_PREFIX,
    REPLY_SUFFIX,
    SYSTEM_PREFIX,
    SYSTEM_TOPICS,
    is_of_a_group,
    is_system_group,
)

__all__ = ["COLUMNS", "Sample", "rows_between", "take_sample"]

COLUMNS = ("topic", "group", "inTps", "outTps", "lag", "drainS")
QUESTIONS_MAX = 1_000
"""Most requests of a round about topics without a group, each of which costs one to each broker."""


@dataclass(slots=True)
class Sample:
    """All offsets at one moment.

    at_s: monotonic time. ends: the end of each queue. groups: consumed offsets. unasked: number of
    topics above QUESTIONS_MAX. failure: why figures are missing.
    """

    at_s: float
    ends: dict[MessageQueue, int] = field(default_factory=dict)
    groups: dict[str, dict[MessageQueue, int]] = field(default_factory=dict)
    unasked: int = 0
    failure: RocketMQError | None = None


async def take_sample(admin: Admin, topic: str | None, group: str | None) -> Sample:
    """Ask every master, a bounded number at a time. topic, group: only these.

    A server that does not answer is named in `failure`. Raises RocketMQError if no NameServer
    answers.
    """
    sample, unreached = Sample(time.monotonic()), Unreached()
    clusters = await admin.brokers.clusters()
    masters = [data.master for data in clusters.broker_addr_table.values() if data.master]

    async def ask(address: str) -> None:
        with unreached.passed_over(refusals=True):
            for table in (await admin.brokers.consume_stats(address)).consume_stats_list:
                for name, found in table.items():
                    if not is_system_group(name) and group in (None, name):
                        for stats in found:
                            for queue, one in stats.offset_table.items():
                                if topic in (None, queue.topic):
                                    sample.ends[queue] = one.broker_offset
                                    sample.groups.setdefault(name, {})[queue] = one.consumer_offset

    async def ask_topic(name: str) -> None:
        with unreached.passed_over():
            for queue, extent in (await admin.topics.stats(name)).offset_table.items():
                sample.ends[queue] = extent.max_offset

    await in_parallel(ask, masters)
    if group is None:
        not_users = {*SYSTEM_TOPICS, *clusters.broker_addr_table, *clusters.cluster_addr_table}
        names = {*await admin.topics.names()} - {queue.topic for queue in sample.ends} - not_users
        wanted = sorted(n for n in names if _is_users(n) and topic in (None, n))
        most = max(1, QUESTIONS_MAX // max(1, len(masters)))
        sample.unasked = max(0, len(wanted) - most)
        await in_parallel(ask_topic, wanted[:most])
    sample.failure = unreached.failure
    return sample


def _is_users(topic: str) -> bool:
    is_system = topic.startswith((SYSTEM_PREFIX, INNER_PREFIX)) or topic.endswith(REPLY_SUFFIX)
    return not is_system and not is_of_a_group(topic)


def rows_between(before: Sample, after: Sample) -> list[Row]:
    """A row for each topic and group that consumes it, and for each topic without a group.

    inTps, outTps: messages a second between the samples. drainS: seconds until the group has
    consumed all at these rates, None if it does not catch up.
    """
    elapsed_s = max(after.at_s - before.at_s, 1e-6)
    sent = _by_topic(before.ends, after.ends)
    consumed = {
        group: _by_topic(before.groups.get(group, {}), offsets)
        for group, offsets in after.groups.items()
    }
    rows = []
    for group, offsets in after.groups.items():
        lags: dict[str, int] = defaultdict(int)
        for queue, offset in offsets.items():
            lags[queue.topic] += max(after.ends[queue] - offset, 0)
        for topic, lag in lags.items():
            rates = sent[topic] / elapsed_s, consumed[group][topic] / elapsed_s
            rows.append(_row(topic, group, *rates, lag))
    with_group = {row["topic"] for row in rows}
    for topic, count in sent.items():
        if topic not in with_group:
            rows.append(_row(topic, None, count / elapsed_s, None, None))
    return rows


def _by_topic(
    before: Mapping[MessageQueue, int], after: Mapping[MessageQueue, int]
) -> dict[str, int]:
    """How far the queues of each topic moved on; a queue that one sample lacks counts nothing."""
    moved: dict[str, int] = defaultdict(int)
    for queue, offset in after.items():
        moved[queue.topic] += max(offset - before.get(queue, offset), 0)
    return moved


def _row(
    topic: str, group: str | None, in_tps: float, out_tps: float | None, lag: int | None
) -> Row:
    surplus = (out_tps or 0.0) - in_tps
    return {
        "topic": topic,
        "group": group,
        "inTps": round(in_tps, 1),
        "outTps": None if out_tps is None else round(out_tps, 1),
        "lag": lag,
        "drainS": None if not lag or surplus <= 0 else round(lag / surplus, 1),
    }

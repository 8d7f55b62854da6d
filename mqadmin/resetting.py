"""Shared by resetOffsetByTime and skipAccumulatedMessage: the reset, and RocketMQ's text of it."""

from __future__ import annotations

from itertools import groupby

from mqadmin.command import Arguments
from mqadmin.java_order import queue_order
from mqadmin.java_text import front, moment_of
from mqadmin.moving import plan_text, target_text
from mqadmin.report import Report, Row
from mqclient.admin import Admin, RollbackStats
from mqclient.admin.resets import END_MS, Moment
from mqclient.errors import BrokerError
from mqcommon.message import MessageQueue
from mqcommon.wire.codes import ResponseCode

Moved = dict[MessageQueue, int] | list[RollbackStats]
"""The offsets that the brokers told running members, or the offsets that were committed."""
COLUMNS = ("brokerName", "queueId", "consumerOffset", "offset")


async def move(admin: Admin, arguments: Arguments, to_ms: int) -> Moved:
    """Move the group: through its members, or by itself if no member is online."""
    group, topic = arguments.required("group"), arguments.required("topic")
    force, to = is_forced(arguments), _place(to_ms)
    try:
        return await admin.resets.online(
            topic, group, to, force=force, cpp_members=arguments.flag("cplus")
        )
    except BrokerError as error:
        if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
            raise
    return await admin.resets.offline(topic, group, to, force=force)


def _place(to_ms: int) -> Moment:
    return "latest" if to_ms == END_MS else moment_of(to_ms)


def is_forced(arguments: Arguments) -> bool:
    """Whether offsets may also move forward; true without -f."""
    return arguments.text("force") is None or arguments.is_true("force")


def report(moved: Moved, heads: tuple[str, str]) -> Report:
    """The queues and their offsets. heads: the first line, of a group with and without members."""
    if isinstance(moved, dict):
        rows: list[Row] = [
            {
                "brokerName": queue.broker_name,
                "queueId": queue.queue_id,
                "consumerOffset": None,
                "offset": offset,
            }
            for queue, offset in sorted(moved.items())
        ]
        return Report(rows, lambda: heads[0] + _online_text(moved), columns=COLUMNS)
    rows = [
        {
            "brokerName": row.queue.broker_name,
            "queueId": row.queue.queue_id,
            "consumerOffset": row.consumer_offset,
            "offset": row.rollback_offset,
        }
        for row in moved
    ]
    return Report(rows, lambda: heads[1] + _offline_text(moved), columns=COLUMNS)


def _online_text(offsets: dict[MessageQueue, int]) -> str:
    lines = [f"{'#brokerName':<40}  {'#queueId':<40}  {'#offset':<40}\n"]
    for queue in queue_order(offsets):
        name = front(queue.broker_name, 32)
        lines.append(f"{name:<40}  {queue.queue_id:<40}  {offsets[queue]:<40}\n")
    return "".join(lines)


def _offline_text(stats: list[RollbackStats]) -> str:
    titles = ("#brokerName", "#queueId", "#brokerOffset", "#consumerOffset", "#timestampOffset",
              "#rollbackOffset")  # fmt: skip
    lines = ["  ".join(f"{title:<20}" for title in titles) + "\n"]
    for row in _in_java_order(stats):
        queue = row.queue
        cells = (front(queue.broker_name, 32), queue.queue_id, row.broker_offset,
                 row.consumer_offset, row.timestamp_offset, row.rollback_offset)  # fmt: skip
        lines.append("  ".join(f"{cell:<20}" for cell in cells) + "\n")
    return "".join(lines)


def _in_java_order(stats: list[RollbackStats]) -> list[RollbackStats]:
    """Broker by broker; a group's offsets are in a HashMap, new ones are in the queues' order."""
    found: list[RollbackStats] = []
    for _, of_broker in groupby(stats, key=lambda row: row.queue.broker_name):
        by_queue = {row.queue: row for row in of_broker}
        had_offset = all(row.had_offset for row in by_queue.values())
        order = queue_order(by_queue) if had_offset else list(by_queue)
        found += (by_queue[queue] for queue in order)
    return found


async def effect_of(admin: Admin, arguments: Arguments, to_ms: int) -> str:
    """The messages that a reset skips and repeats."""
    group, topic = arguments.required("group"), arguments.required("topic")
    to = _place(to_ms)
    plan = await admin.plans.reset(group, topic, to)
    return plan_text(plan, f"move group {group} to {target_text(to)} of topic {topic}")

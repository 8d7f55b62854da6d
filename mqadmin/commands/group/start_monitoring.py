"""mqadmin startMonitoring: every minute, groups that lag, members with problems, lost messages.

RocketMQ writes these lines to the log of its client (`MonitorService`, `DefaultMonitorListener`);
here they are the command's text.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress

from mqadmin.command import Arguments, Command
from mqadmin.java_text import hash_order, java_object
from mqadmin.queue_reading import pages, readable_queues
from mqadmin.report import Piece, Stream
from mqadmin.running_text import has_same_subscriptions, problems
from mqadmin.unreached import Unreached
from mqclient.admin import Admin
from mqclient.admin.versions import VERSION_NAMES
from mqclient.errors import RocketMQError
from mqcommon.message import MessageQueue
from mqcommon.names import OFFSET_MOVED_TOPIC, retry_groups
from mqcommon.wire.bodies.base import BodyError
from mqcommon.wire.bodies.groups import OffsetWrapper
from mqcommon.wire.bodies.running import ConsumerRunningInfo, OffsetMovedEvent

ROUND_S = 60.0
GROUP = "__MONITOR_CONSUMER"
"""RocketMQ's group that reads about lost messages; its offset says which are known."""
PREFIX = "[MONITOR] "
NOTIFY = f"{PREFIX} [NOTIFY] reportConsumerRunningInfo: "
RULE = "=" * 41
ANSWERING = VERSION_NAMES.index("V3_1_8_SNAPSHOT")
"""The first version whose members answer about their state."""
COLUMNS = (
    "event", "timestamp", "group", "topic", "clientId", "undoneMsgsTotal", "undoneMsgsSingleMQ",
    "undoneMsgsDelayTimeMills", "brokerName", "queueId", "offsetRequest", "offsetNew", "problem",
)  # fmt: skip


async def run(admin: Admin, arguments: Arguments) -> Stream:
    """Look again every minute, until the command is stopped."""
    return Stream(_rounds(admin), COLUMNS)


async def _rounds(admin: Admin) -> AsyncIterator[Piece]:
    while True:
        unreached = Unreached()
        yield Piece(f"{PREFIX}{RULE}beginRound")
        for group in retry_groups(hash_order(await admin.topics.names())):
            async for piece in _of_group(admin, group, unreached):
                yield piece
        yield Piece(f"{PREFIX}{RULE}endRound")
        async for piece in _lost(admin, unreached):
            yield piece
        if unreached.failure is not None:
            print(f"note: {unreached.failure}", file=sys.stderr)
        await asyncio.sleep(ROUND_S)


async def _of_group(admin: Admin, group: str, unreached: Unreached) -> AsyncIterator[Piece]:
    """The reports about a group; a group without members has none, as in RocketMQ."""
    with unreached.passed_over():
        members = (await admin.groups.connection(group)).connection_set
        with unreached.passed_over():  # a group that never committed is an error
            by_topic: dict[str, dict[MessageQueue, OffsetWrapper]] = defaultdict(dict)
            for queue, offsets in (await admin.offsets.progress(group)).offset_table.items():
                by_topic[queue.topic][queue] = offsets
            for topic in hash_order(by_topic):
                yield await _undone(admin, group, topic, by_topic[topic], unreached)
        infos: dict[str, ConsumerRunningInfo] = {}
        for member in members:
            if member.version >= ANSWERING:
                with suppress(RocketMQError):  # the member does not answer
                    client_id = member.client_id
                    infos[client_id] = await admin.groups.running_info(group, client_id)
        for piece in _problems(group, infos):
            yield piece


async def _undone(
    admin: Admin,
    group: str,
    topic: str,
    offsets: Mapping[MessageQueue, OffsetWrapper],
    unreached: Unreached,
) -> Piece:
    """Messages that a group has not consumed yet; `UndoneMsgs`."""
    lags = [max(one.broker_offset - one.consumer_offset, 0) for one in offsets.values()]
    total, largest = sum(lags), max(lags)
    delays = [await _delay(admin, queue, one, unreached) for queue, one in offsets.items()]
    delay = max(delays)
    figures = {
        "topic": topic,
        "undoneMsgsTotal": total,
        "undoneMsgsSingleMQ": largest,
        "undoneMsgsDelayTimeMills": delay,
    }
    words = java_object("UndoneMsgs", {"consumerGroup": group, **figures})
    return _piece("undone", f"{PREFIX}reportUndoneMsgs: {words}", {"group": group, **figures})


async def _delay(
    admin: Admin, queue: MessageQueue, offsets: OffsetWrapper, unreached: Unreached
) -> int:
    """Milliseconds between the last consumed message of a queue and its last one."""
    if offsets.last_timestamp <= 0 or offsets.broker_offset <= 0:
        return 0
    with unreached.passed_over():
        for message in (await admin.messages.read(queue, offsets.broker_offset - 1, 1)).messages:
            return max(message.store_timestamp_ms - offsets.last_timestamp, 0)
    return 0


def _problems(group: str, infos: Mapping[str, ConsumerRunningInfo]) -> list[Piece]:
    if not infos:
        return []
    now_ms = int(time.time() * 1000)
    found = []
    if not has_same_subscriptions(infos, now_ms):
        text = f"{NOTIFY}ConsumerGroup: {group}, Subscription different"
        found.append(_piece("problem", text, {"group": group, "problem": "Subscription different"}))
    for client_id in sorted(infos):
        for problem in problems(client_id, infos[client_id], now_ms):
            text = f"{NOTIFY}ConsumerGroup: {group}, ClientId: {client_id}, {problem}"
            row = {"group": group, "clientId": client_id, "problem": problem}
            found.append(_piece("problem", text, row))
    return found


async def _lost(admin: Admin, unreached: Unreached) -> AsyncIterator[Piece]:
    """Pulls beyond a queue's extent, which brokers record in a topic: their messages are lost."""
    with unreached.passed_over():  # without the topic no broker has recorded any
        for queue in await readable_queues(admin, OFFSET_MOVED_TOPIC):
            low = await admin.offsets.committed(GROUP, queue) or 0
            high = await admin.offsets.maximum(queue)
            async for page in pages(admin, queue, low, high):
                for message in page.messages:
                    with suppress(BodyError):
                        event = OffsetMovedEvent.from_json(message.body)
                        yield _lost_piece(event, message.store_timestamp_ms)
                await admin.offsets.commit(GROUP, queue, page.next_offset)


def _lost_piece(event: OffsetMovedEvent, stored_ms: int) -> Piece:
    queue = event.message_queue
    group = event.consumer_group
    offsets = {"offsetRequest": event.offset_request, "offsetNew": event.offset_new}
    moved = java_object(
        "OffsetMovedEvent", {"consumerGroup": group, "messageQueue": queue, **offsets}
    )
    row = {
        "timestamp": stored_ms,
        "group": group,
        "topic": queue.topic,
        "brokerName": queue.broker_name,
        "queueId": queue.queue_id,
        **offsets,
    }
    words = java_object("DeleteMsgsEvent", {"offsetMovedEvent": moved, "eventTimestamp": stored_ms})
    return _piece("lost", f"{PREFIX}reportDeleteMsgsEvent: {words}", row)


def _piece(event: str, text: str, values: Mapping[str, object]) -> Piece:
    """A report as text and as a row with all columns."""
    row = {**dict.fromkeys(COLUMNS), "timestamp": int(time.time() * 1000), **values}
    return Piece(text, {**row, "event": event})


START_MONITORING = Command("startMonitoring", run)

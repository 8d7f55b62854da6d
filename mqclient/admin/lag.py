"""How far a group is behind, in messages and in time."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from mqclient.admin.channel import Channel, Room
from mqclient.admin.offsets import Offsets
from mqclient.admin.topics import Topics
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.groups import OffsetWrapper
from mqcommon.wire.bodies.topics import QueueTimeSpan, TopicOffset


@dataclass(frozen=True, slots=True)
class QueueLag:
    """How far a group is behind in one queue.

    minimum, maximum: the queue's first offset, and its end. consumer_offset: the committed offset,
    0 if there is none. messages: stored messages that the group has not consumed. milliseconds: age
    of the oldest of them, 0 if there is none.
    """

    queue: MessageQueue
    minimum: int
    maximum: int
    consumer_offset: int
    messages: int
    milliseconds: int


class Lags(Room):
    """How far groups are behind. A lag is never negative, and deleted messages do not count."""

    def __init__(self, channel: Channel, topics: Topics, offsets: Offsets) -> None:
        super().__init__(channel)
        self._topics, self._offsets = topics, offsets

    async def of(self, group: str, topic: str | None = None) -> list[QueueLag]:
        """The lag of a group in each queue that it has an offset in, in the queues' order.

        topic: only this topic. Raises as `offsets.progress` does.
        """
        table = (await self._offsets.progress(group, topic)).offset_table
        found = []
        for name in sorted({queue.topic for queue in table}):
            extents = (await self._topics.stats(name)).offset_table
            spans = await self._topics.consume_time_span(name, group)
            by_queue = {span.message_queue: span for span in spans}
            found += [
                _lag(queue, table[queue], extents.get(queue), by_queue)
                for queue in sorted(table)
                if queue.topic == name
            ]
        return found


def _lag(
    queue: MessageQueue,
    offset: OffsetWrapper,
    extent: TopicOffset | None,
    spans: Mapping[MessageQueue, QueueTimeSpan],
) -> QueueLag:
    minimum = extent.min_offset if extent is not None else 0
    maximum = max(offset.broker_offset, minimum)
    messages = max(maximum - max(offset.consumer_offset, minimum), 0)
    span = spans.get(queue)
    age_ms = 0
    if messages and span is not None:
        # The broker knows no age of a message that it has deleted: the oldest stored one counts.
        if offset.consumer_offset >= minimum:
            age_ms = span.delay_time
        elif span.min_time_stamp > 0:  # -1 if the broker does not know the time
            age_ms = _now_ms() - span.min_time_stamp
    return QueueLag(queue, minimum, maximum, offset.consumer_offset, messages, max(age_ms, 0))


def _now_ms() -> int:
    return int(time.time() * 1000)

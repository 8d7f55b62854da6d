"""Which offsets of which queues a search goes through, and the reader for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mqclient.admin.channel import Channel, reachable
from mqclient.admin.offsets import Offsets
from mqclient.admin.search import Place, Problem, QueueRange, Search
from mqclient.admin.topics import Topics
from mqclient.engine.first_at import asking, first_at
from mqclient.engine.parallel import in_parallel
from mqclient.engine.ranges import Conditions, RangeReader, plan_of
from mqclient.errors import NotFoundError, RocketMQError
from mqcommon.message import MessageQueue
from mqcommon.names import TOOLS_GROUP
from mqcommon.wire.bodies.route import MASTER_ID, BrokerData, TopicRouteData

__all__ = ["Extent", "SearchPlanner"]

WAITING_BYTES = 8 << 20
"""Replies that a search keeps until it goes through them."""
RETRY_TIMEOUT_S = 10.0
"""How long a search tries a broker that fails again."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The part of a topic to search; None does not limit it.

    begin_ms, end_ms: store times. group: only what this group has not read. queues: only these.
    start: the first place to search, in the order of queues.
    """

    topic: str
    begin_ms: int | None = None
    end_ms: int | None = None
    group: str | None = None
    queues: frozenset[MessageQueue] | None = None
    start: Place | None = None


class SearchPlanner:
    """Plans searches."""

    def __init__(self, channel: Channel, topics: Topics, offsets: Offsets) -> None:
        self._channel, self._topics, self._offsets = channel, topics, offsets

    async def search(
        self, extent: Extent, conditions: Conditions, tags: list[str], count: int | None
    ) -> Search:
        """A search through an extent. tags: the tags of the conditions, for the brokers."""
        route = await self._channel.route(extent.topic)
        brokers = {data.broker_name: data for data in route.broker_datas if data.broker_addrs}
        readable = _readable(route, extent)
        ranges, problems = await self._stored(extent, readable)
        ranges = await self._limited(extent, ranges, brokers)
        advertised: dict[str, str] = {}

        def connected(advertises: str | None) -> str | None:
            if advertises is None:
                return None
            address = self._channel.engine.mapped(advertises)
            advertised[address] = advertises
            return address

        plans: list[Mapping[str, Any]] = [
            plan_of(
                *piece,
                master=connected(brokers[piece.queue.broker_name].master),
                slave=connected(_slave(brokers[piece.queue.broker_name])),
                group=TOOLS_GROUP,
                tags=tags or None,
                waiting_bytes=WAITING_BYTES,
                timeout=self._channel.timeout,
                retry_timeout=RETRY_TIMEOUT_S,
            )
            for piece in ranges
        ]
        return Search(
            ranges,
            RangeReader(self._channel.engine.settings.transport_arguments(), plans),
            conditions,
            count=count,
            explain=self._channel.engine.explain,
            advertised=advertised,
            problems=problems,
        )

    async def _stored(
        self, extent: Extent, readable: frozenset[MessageQueue]
    ) -> tuple[list[QueueRange], tuple[Problem, ...]]:
        """The stored messages of the queues, and problems for messages that no client may read."""
        stats = await self._topics.stats(extent.topic)
        table = {queue: (o.min_offset, o.max_offset) for queue, o in stats.offset_table.items()}
        for queue in readable - table.keys():  # a queue above the number of write queues
            table[queue] = (await self._offsets.minimum(queue), await self._offsets.maximum(queue))
        ranges, problems = [], []
        for queue, (first, end) in sorted(table.items()):
            if queue in readable:
                ranges.append(QueueRange(queue, first, end))
            elif end > first and extent.queues is None:
                words = "the queue is above the topic's number of read queues; raise the number"
                problems.append(Problem(queue, end - first, words))
        return ranges, tuple(problems)

    async def _limited(
        self, extent: Extent, ranges: list[QueueRange], brokers: dict[str, BrokerData]
    ) -> list[QueueRange]:
        """The ranges that have offsets in the extent."""
        if extent.start is not None:
            at = extent.start
            ranges = [
                _from(piece, at.offset if piece.queue == at.queue else 0)
                for piece in ranges
                if piece.queue >= at.queue
            ]
        if extent.group is not None:
            ranges = [_from(piece, offset) for piece, offset in await self._unread(extent, ranges)]
        ranges = [piece for piece in ranges if piece.first < piece.end]
        found: dict[MessageQueue, QueueRange] = {}

        async def limit(piece: QueueRange) -> None:
            queue, first, end = piece
            address = reachable(brokers[queue.broker_name])
            assert address is not None
            ask = asking(lambda call: self._channel.ask_broker(address, call))
            if extent.begin_ms is not None:
                first = max(first, await first_at(ask, queue, TOOLS_GROUP, extent.begin_ms))
            if extent.end_ms is not None:
                end = min(end, await first_at(ask, queue, TOOLS_GROUP, extent.end_ms))
            found[queue] = QueueRange(queue, first, end)

        await in_parallel(limit, ranges)
        return [piece for _, piece in sorted(found.items()) if piece.first < piece.end]

    async def _unread(
        self, extent: Extent, ranges: list[QueueRange]
    ) -> list[tuple[QueueRange, int]]:
        """The ranges, with the offset that the group reads next."""
        assert extent.group is not None
        committed = await self._offsets.of_group(extent.group, extent.topic)
        if not committed:
            raise NotFoundError(
                f"group {extent.group!r} has no committed offset in topic {extent.topic!r}; list "
                f"the topics of the group: mqadmin lag -g {extent.group} -n {self._channel.namesrv}"
            )
        return [(piece, committed.get(piece.queue, piece.first)) for piece in ranges]


def _readable(route: TopicRouteData, extent: Extent) -> frozenset[MessageQueue]:
    """The wanted queues, which must be readable. Raises RocketMQError, ValueError."""
    readable = frozenset(
        MessageQueue(extent.topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.readable
        for queue_id in range(data.read_queue_nums)
    )
    if not readable:
        raise RocketMQError(
            f"topic {extent.topic!r} has no queue with read permission; give it: "
            "mqadmin updateTopicPerm -p 6"
        )
    start = frozenset() if extent.start is None else frozenset({extent.start.queue})
    for queue in sorted((extent.queues or frozenset()) | start):
        if queue not in readable:
            there = ", ".join(f"{q.broker_name}:{q.queue_id}" for q in sorted(readable))
            raise ValueError(
                f"topic {extent.topic!r} has no queue {queue.broker_name}:{queue.queue_id} to "
                f"read; it has {there}"
            )
    return readable if extent.queues is None else extent.queues


def _from(piece: QueueRange, offset: int) -> QueueRange:
    return piece._replace(first=max(piece.first, offset))


def _slave(data: BrokerData) -> str | None:
    ids = sorted(broker_id for broker_id in data.broker_addrs if broker_id != MASTER_ID)
    return data.broker_addrs[ids[0]] if ids else None

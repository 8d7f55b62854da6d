"""Offsets: progress of groups, and extent of queues."""

from __future__ import annotations

from datetime import datetime

from mqclient.admin.channel import R, Room, master_in, reachable
from mqclient.errors import NotFoundError
from mqclient.settings.checks import milliseconds, moment
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.groups import ConsumeStats
from mqcommon.wire.bodies.route import QueueData
from mqcommon.wire.calls import group_calls, offset_calls, topic_calls
from mqcommon.wire.calls.call import Call


class Offsets(Room):
    """Offsets of queues and groups. topic, group: names. when: an aware datetime."""

    async def progress(self, group: str, topic: str | None = None) -> ConsumeStats:
        """Progress of a group in each of its queues, from all brokers that know the group.

        topic: only this topic. Raises NoRouteError when the group was never seen, NotFoundError
        when it never committed an offset. Queues above a lowered number of read queues are left
        out; see `unreadable`.
        """
        merged = ConsumeStats()
        for address in await self._channel.group_addresses(group):
            call = group_calls.consume_stats(group, topic)
            stats = await self._channel.ask_broker(address, call, slow=True)
            merged.offset_table.update(stats.offset_table)
            merged.consume_tps += stats.consume_tps
        if not merged.offset_table:
            raise NotFoundError(
                f"group {group!r} has no committed offset: it never consumed a message; start a "
                "consumer of it, or set offsets: admin.offsets.commit(group, queue, offset)"
            )
        return merged

    async def unreadable(self, topic: str) -> dict[MessageQueue, int]:
        """Messages in queues that consumers are not given, by queue.

        These are the queues above the topic's number of read queues, after that was lowered.
        `progress` leaves them out, as RocketMQ does. Raises NoRouteError for an unknown topic.
        """
        route = await self._channel.route(topic)
        reads = {data.broker_name: data.read_queue_nums for data in route.queue_datas}
        found = {}
        for data in route.broker_datas:
            address = reachable(data)
            writes = [q for q in route.queue_datas if q.broker_name == data.broker_name]
            if address is None or all(q.write_queue_nums <= q.read_queue_nums for q in writes):
                continue
            stats = await self._channel.ask_broker(
                address, topic_calls.topic_stats(topic), slow=True
            )
            for queue, offset in stats.offset_table.items():
                count = offset.max_offset - offset.min_offset
                if count > 0 and queue.queue_id >= reads.get(queue.broker_name, 0):
                    found[queue] = count
        return dict(sorted(found.items()))

    async def minimum(self, queue: MessageQueue) -> int:
        """The smallest offset of a queue that can still be read."""
        return await self._ask_master(queue, offset_calls.min_offset(queue))

    async def maximum(self, queue: MessageQueue) -> int:
        """The offset that the next message of a queue will get."""
        return await self._ask_master(queue, offset_calls.max_offset(queue))

    async def at_time(self, queue: MessageQueue, when: datetime) -> int:
        """The offset of a queue at a store time, an aware datetime."""
        call = offset_calls.search_offset(queue, milliseconds("when", when))
        return await self._ask_master(queue, call)

    async def earliest_time(self, queue: MessageQueue) -> datetime | None:
        """When the oldest message of a queue was stored; None when the queue is empty."""
        found_ms = await self._ask_master(queue, offset_calls.earliest_store_time(queue))
        return None if found_ms is None else moment(found_ms)

    async def of_group(self, group: str, topic: str | None = None) -> dict[MessageQueue, int]:
        """The committed offsets of a group; queues without one are left out.

        topic: only this topic, which may be a topic that the group has never subscribed to. Raises
        as `progress` does, and NoRouteError for an unknown topic.
        """
        if topic is None:
            table = (await self.progress(group)).offset_table
            topics = sorted({queue.topic for queue in table})
        else:
            topics = [topic]
        found = {}
        for name in topics:
            route = await self._channel.route(name)
            for data in sorted(route.queue_datas, key=_broker_name):
                for queue_id in range(data.read_queue_nums):
                    queue = MessageQueue(name, data.broker_name, queue_id)
                    call = offset_calls.query_consumer_offset(group, queue, zero_if_new=False)
                    offset = await self._channel.ask_broker(master_in(route, queue), call)
                    if offset is not None:
                        found[queue] = offset
        return found

    async def of_members(
        self, topic: str, group: str, client_id: str | None = None
    ) -> dict[str, dict[MessageQueue, int]]:
        """Offsets by client id, as the members of a group say them (`getConsumeStatus`).

        client_id: ask only this member. Raises BrokerError when no member is online.
        """
        call = offset_calls.consumer_status(topic, group, client_id)
        return await self._channel.ask_any(topic, call, slow=True)

    async def committed(self, group: str, queue: MessageQueue) -> int | None:
        """A group's committed offset in a queue; None when it never committed one."""
        return await self._ask_master(queue, offset_calls.query_consumer_offset(group, queue))

    async def commit(self, group: str, queue: MessageQueue, offset: int) -> None:
        """Set a group's committed offset in a queue: the next one to read."""
        await self._ask_master(queue, offset_calls.update_consumer_offset(group, queue, offset))

    async def _ask_master(self, queue: MessageQueue, call: Call[R]) -> R:
        return await self._channel.ask_broker(await self._channel.master_of(queue), call)


def _broker_name(data: QueueData) -> str:
    return data.broker_name

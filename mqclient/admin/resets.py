"""Offsets of groups that go to another time, or to another group."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import Literal

from mqclient.admin.channel import Room, reachable
from mqclient.engine.first_at import asking, first_at
from mqclient.errors import BrokerError, NotFoundError
from mqclient.settings.checks import milliseconds
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.groups import OffsetWrapper
from mqcommon.wire.calls import group_calls, offset_calls, topic_calls
from mqcommon.wire.codes import LanguageCode, ResponseCode

END_MS = -1
"""The time that means the end of a queue on the wire."""
Moment = datetime | Literal["earliest", "latest"]
"""An aware datetime, or the start or the end of each queue."""


@dataclass(frozen=True, slots=True)
class RollbackStats:
    """The reset of one queue's offset (RocketMQ's `RollbackStats`).

    broker_offset: the queue's end. consumer_offset: the group's offset before, the queue's start
    if it had none. timestamp_offset: the offset at the time. rollback_offset: the group's offset
    now. had_offset: whether the group had an offset of the topic on the queue's broker.
    """

    queue: MessageQueue
    broker_offset: int
    consumer_offset: int
    timestamp_offset: int
    rollback_offset: int
    had_offset: bool = True


class Resets(Room):
    """Moves groups to another time.

    topic, group: names. source, target: the groups to copy offsets from and to.
    to: an aware datetime, or "earliest" or "latest" for the start or the end of each queue.
    force: move forward too; without it no offset becomes higher.
    """

    async def reset(self, topic: str, group: str, to: Moment) -> dict[MessageQueue, int]:
        """Move a group (`resetOffsetNew`): `online`, or `offline` if no member is online.

        Returns the offset of each queue now.
        """
        try:
            return await self.online(topic, group, to)
        except BrokerError as error:
            if error.code != ResponseCode.CONSUMER_NOT_ONLINE:
                raise
        stats = await self.offline(topic, group, to)
        return {row.queue: row.rollback_offset for row in stats}

    async def online(
        self,
        topic: str,
        group: str,
        to: Moment,
        *,
        force: bool = True,
        cpp_members: bool = False,
    ) -> dict[MessageQueue, int]:
        """Move a group whose members run (`resetOffsetByTimestamp`): the brokers tell the members.

        cpp_members: the members are C++ clients, which need the offsets in another form. Returns
        the offset of each queue. Raises BrokerError, with code 206 when no member is online.
        """
        call = offset_calls.reset_offset(topic, group, wire_time(to), force=force)
        if cpp_members:
            call.request.language = LanguageCode.CPP
        offsets: dict[MessageQueue, int] = {}
        for address in await self._channel.addresses(topic):
            told = await self._channel.ask_broker(address, call, slow=True)
            offsets |= told
        return offsets

    async def offline(
        self, topic: str, group: str, to: Moment, *, force: bool = True
    ) -> list[RollbackStats]:
        """Move the offsets of a group without members (`resetOffsetByTimestampOld`).

        A running member would overwrite the committed offsets.
        """
        route = await self._channel.route(topic)
        queues = {data.broker_name: data.read_queue_nums for data in route.queue_datas}
        found = []
        for data in route.broker_datas:
            address = reachable(data)
            if address is not None:
                count = queues.get(data.broker_name, 0)
                known = await self._committed(address, group, topic)
                had_offset = bool(known)
                if not known:
                    known = await self._starts(address, topic, data.broker_name, count)
                for queue, offsets in sorted(known.items()):
                    ms = wire_time(to)
                    row = await self._move(address, group, queue, offsets, ms, force)
                    found.append(replace(row, had_offset=had_offset))
        return found

    async def _committed(
        self, address: str, group: str, topic: str
    ) -> dict[MessageQueue, OffsetWrapper]:
        """A group's offsets of a topic on one broker."""
        stats = await self._channel.ask_broker(address, group_calls.consume_stats(group), slow=True)
        return {q: offsets for q, offsets in stats.offset_table.items() if q.topic == topic}

    async def _starts(
        self, address: str, topic: str, broker_name: str, count: int
    ) -> dict[MessageQueue, OffsetWrapper]:
        """The offsets of a new group: the start of each queue. count: read queues of the topic."""
        table = (
            await self._channel.ask_broker(address, topic_calls.topic_stats(topic))
        ).offset_table
        all_queues = (MessageQueue(topic, broker_name, at) for at in range(count))
        return {
            queue: OffsetWrapper(table[queue].max_offset, table[queue].min_offset)
            for queue in all_queues
            if queue in table
        }

    async def _move(
        self,
        address: str,
        group: str,
        queue: MessageQueue,
        offsets: OffsetWrapper,
        ms: int,
        force: bool,
    ) -> RollbackStats:
        invoke = partial(self._channel.ask_broker, address)
        if ms == END_MS:
            new = await invoke(offset_calls.max_offset(queue))
        else:
            new = await first_at(asking(invoke), queue, group, ms)
        now = offsets.consumer_offset
        if force or new <= now:
            call = offset_calls.update_consumer_offset(group, queue, new)
            await self._channel.ask_broker(address, call)
            now = new
        return RollbackStats(queue, offsets.broker_offset, offsets.consumer_offset, new, now)

    async def clone(self, source: str, target: str, topic: str, *, offline: bool = False) -> None:
        """Copy a group's offsets of a topic to another group (`cloneGroupOffset`).

        offline: copy also if the source group is online and does not subscribe to the topic.
        """
        call = offset_calls.clone_offset(source, target, topic, offline=offline)
        for address in await self._channel.addresses(topic):
            await self._channel.ask_broker(address, call, slow=True)

    async def copy(self, source: str, target: str, topic: str) -> dict[MessageQueue, int]:
        """Commit a group's offsets of a topic for another group; returns them by queue.

        Unlike `clone`, it asks and commits itself, as RocketMQ's `mqadmin cloneGroupOffset`; the
        brokers do not check who is online. Raises NotFoundError when the source group has no
        offset of the topic.
        """
        offsets: dict[MessageQueue, int] = {}
        for address in await self._channel.addresses(topic):
            known = await self._committed(address, source, topic)
            for queue, found in sorted(known.items()):
                offset = found.consumer_offset
                if offset >= 0:
                    call = offset_calls.update_consumer_offset(target, queue, offset)
                    await self._channel.ask_broker(address, call)
                    offsets[queue] = offset
        if not offsets:
            raise NotFoundError(f"group {source!r} has no committed offset in topic {topic!r}")
        return offsets


def wire_time(to: Moment) -> int:
    """A time as the brokers take it; raises ValueError, TypeError if it cannot be used."""
    if to == "earliest":
        return 0
    if to == "latest":
        return END_MS
    if isinstance(to, str):
        raise ValueError(f"to must be a datetime, 'earliest' or 'latest', not {to!r}")
    return milliseconds("to", to)

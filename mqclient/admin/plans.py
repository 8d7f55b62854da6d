"""Changes of a group's offsets that are worked out first, shown, and then made."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from mqclient.admin.channel import Channel, Room, master_in
from mqclient.admin.groups import Groups
from mqclient.admin.offsets import Offsets
from mqclient.admin.resets import Moment, Resets, wire_time
from mqclient.engine.first_at import asking, first_at
from mqclient.errors import BrokerError, NoRouteError, NotFoundError, RocketMQError
from mqcommon.message import MessageQueue
from mqcommon.wire.bodies.topics import TopicOffset
from mqcommon.wire.calls import offset_calls, topic_calls
from mqcommon.wire.codes import ResponseCode


@dataclass(frozen=True, slots=True)
class ToOffset:
    """A target of `Plans.reset`: this offset in every queue."""

    offset: int


@dataclass(frozen=True, slots=True)
class ShiftBy:
    """A target of `Plans.reset`: this number of messages forward, or back if it is negative."""

    count: int


Target = Moment | ToOffset | ShiftBy
"""A target of `Plans.reset`. A datetime needs a time zone: the first message stored then."""


@dataclass(frozen=True, slots=True)
class OffsetChange:
    """The change of a group's offset in one queue.

    minimum, maximum: the queue's first offset, and its end. before: the committed offset, None if
    there is none. after: the offset of the plan.
    """

    queue: MessageQueue
    minimum: int
    maximum: int
    before: int | None
    after: int

    @property
    def skipped(self) -> int:
        """Stored messages that the group will not consume because of the change."""
        return max(self.after - max(self.before or 0, self.minimum), 0)

    @property
    def repeated(self) -> int:
        """Stored messages that the group will consume again."""
        return max((self.before or 0) - max(self.after, self.minimum), 0)


@dataclass(frozen=True, slots=True)
class OffsetPlan:
    """A change of a group's offsets in a topic, with the offsets before and after.

    to: where brokers can tell running members to go; None if the offsets can be changed only while
    no member is online.
    """

    group: str
    topic: str
    changes: tuple[OffsetChange, ...]
    to: Moment | None = None

    @property
    def skipped(self) -> int:
        """Stored messages that the group will not consume."""
        return sum(change.skipped for change in self.changes)

    @property
    def repeated(self) -> int:
        """Stored messages that the group will consume again."""
        return sum(change.repeated for change in self.changes)


class Plans(Room):
    """Plans of changes of groups' offsets. A plan changes nothing until it is given to `apply`.

    source, target: the groups to copy offsets from and to. queues: only these queues of the topic;
    None is all queues that consumers read.
    All raise NoRouteError for an unknown topic, and RocketMQError if a queue has no master.
    """

    def __init__(self, channel: Channel, groups: Groups, offsets: Offsets, resets: Resets) -> None:
        super().__init__(channel)
        self._groups, self._offsets, self._resets = groups, offsets, resets

    async def reset(
        self,
        group: str,
        topic: str,
        to: Target,
        queues: Collection[tuple[str, int]] | None = None,
    ) -> OffsetPlan:
        """A plan that moves a group. queues: broker name and queue id of each.

        Offsets before a queue's start or after its end become the start or the end.
        """
        changes = []
        for queue, address, extent in await self._extents(topic, queues):
            before = await self._committed(group, queue, address)
            wanted = await self._wanted(group, queue, address, extent, before, to)
            after = min(max(wanted, extent.min_offset), extent.max_offset)
            changes.append(OffsetChange(queue, extent.min_offset, extent.max_offset, before, after))
        told = to if queues is None and not isinstance(to, ToOffset | ShiftBy) else None
        return OffsetPlan(group, topic, tuple(changes), told)

    async def copy(self, source: str, target: str, topic: str) -> OffsetPlan:
        """A plan that gives a group the offsets of another group.

        Raises NotFoundError when the other group has no offset in the topic.
        """
        offsets = {}
        for queue, address, _ in await self._extents(topic):
            offset = await self._committed(source, queue, address)
            if offset is not None:
                offsets[queue] = offset
        if not offsets:
            raise NotFoundError(f"group {source!r} has no committed offset in topic {topic!r}")
        return await self.put(target, topic, offsets)

    async def put(self, group: str, topic: str, offsets: Mapping[MessageQueue, int]) -> OffsetPlan:
        """A plan that sets a group's offset in some queues, as they are given.

        Raises RocketMQError for a queue that the topic does not have.
        """
        changes = []
        wanted = {(queue.broker_name, queue.queue_id) for queue in offsets}
        for queue, address, extent in await self._extents(topic, wanted):
            before = await self._committed(group, queue, address)
            after = offsets[queue]
            changes.append(OffsetChange(queue, extent.min_offset, extent.max_offset, before, after))
        return OffsetPlan(group, topic, tuple(changes))

    async def apply(self, plan: OffsetPlan) -> dict[MessageQueue, int]:
        """Make a plan's changes; returns the offset of each queue.

        The brokers tell running members, and look up the time of the plan again. Raises
        RocketMQError if members are online and the plan has no time, as they would overwrite the
        offsets.
        """
        members = await self._online(plan.group)
        if members and plan.to is None:
            raise RocketMQError(
                f"group {plan.group!r} has {members} members online, which would overwrite the "
                "offsets; stop them first"
            )
        if members and plan.to is not None:
            return await self._resets.online(plan.topic, plan.group, plan.to)
        for change in plan.changes:
            await self._offsets.commit(plan.group, change.queue, change.after)
        return {change.queue: change.after for change in plan.changes}

    async def _online(self, group: str) -> int:
        """The number of a group's members."""
        try:
            return len((await self._groups.connection(group)).connection_set)
        except (NoRouteError, NotFoundError):
            return 0
        except BrokerError as error:
            if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                return 0
            raise

    async def _extents(
        self, topic: str, wanted: Collection[tuple[str, int]] | None = None
    ) -> list[tuple[MessageQueue, str, TopicOffset]]:
        """The queues of a topic with their masters' addresses and their extents."""
        route = await self._channel.route(topic)
        reads = {data.broker_name: data.read_queue_nums for data in route.queue_datas}
        found = []
        for data in sorted(route.broker_datas, key=lambda one: one.broker_name):
            name = data.broker_name
            ids = _chosen_ids(range(reads.get(name, 0)), name, wanted)
            if not ids:
                continue
            address = master_in(route, MessageQueue(topic, name, ids[0]))
            table = await self._channel.ask_broker(address, topic_calls.topic_stats(topic))
            queues = (MessageQueue(topic, name, queue_id) for queue_id in ids)
            found += [
                (queue, address, table.offset_table.get(queue) or TopicOffset()) for queue in queues
            ]
        known = {(queue.broker_name, queue.queue_id) for queue, _, _ in found}
        for name, queue_id in wanted or ():
            if (name, queue_id) not in known:
                raise NotFoundError(f"topic {topic!r} has no queue {name}:{queue_id}")
        return found

    async def _wanted(
        self,
        group: str,
        queue: MessageQueue,
        address: str,
        extent: TopicOffset,
        before: int | None,
        to: Target,
    ) -> int:
        if to == "earliest":
            return extent.min_offset
        if to == "latest":
            return extent.max_offset
        if isinstance(to, ToOffset):
            return to.offset
        if isinstance(to, ShiftBy):
            start = extent.min_offset if before is None else max(before, extent.min_offset)
            return start + to.count
        invoke = partial(self._channel.ask_broker, address)
        return await first_at(asking(invoke), queue, group, wire_time(to))

    async def _committed(self, group: str, queue: MessageQueue, address: str) -> int | None:
        call = offset_calls.query_consumer_offset(group, queue, zero_if_new=False)
        return await self._channel.ask_broker(address, call)


def _chosen_ids(
    ids: Iterable[int], broker_name: str, wanted: Collection[tuple[str, int]] | None
) -> list[int]:
    return [one for one in ids if wanted is None or (broker_name, one) in wanted]

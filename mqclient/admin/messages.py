"""Single messages: look one up, see who consumed it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from mqclient.admin.brokers import Brokers
from mqclient.admin.channel import Channel, Room, reachable
from mqclient.admin.groups import Groups
from mqclient.admin.offsets import Offsets
from mqclient.admin.queue_pages import QueuePage, page_call, page_of
from mqclient.admin.search import Place, Search
from mqclient.admin.search_plan import Extent, SearchPlanner
from mqclient.admin.topics import Topics
from mqclient.admin.unique_keys import QUERY_COUNT, UniqueKeys
from mqclient.engine.ranges import Conditions
from mqclient.errors import (
    BrokerError,
    ClientTimeout,
    NotFoundError,
    ProtocolError,
    RocketMQError,
    UnreachableError,
)
from mqclient.settings.checks import milliseconds
from mqclient.trace.points import TracePoint, trace_points
from mqcommon.message import (
    MessageQueue,
    OffsetMessageId,
    ReceivedMessage,
    decode_reply,
    parse_offset_msg_id,
)
from mqcommon.names import TRACE_TOPIC, tags_of
from mqcommon.wire.bodies.groups import ConsumerConnection
from mqcommon.wire.bodies.running import ConsumeMessageDirectlyResult
from mqcommon.wire.calls import message_calls
from mqcommon.wire.codes import ResponseCode

TrackType = Literal[
    "CONSUMED",
    "CONSUMED_BUT_FILTERED",
    "PULL",
    "NOT_CONSUME_YET",
    "NOT_ONLINE",
    "CONSUME_BROADCASTING",
    "UNKNOWN",
]

_TIME_MAX_MS = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class MessageTrack:
    """The fate of a message in one group. exception: why the fate is unknown."""

    consumer_group: str
    track_type: TrackType
    exception: str | None = None

    def __str__(self) -> str:
        return (
            f"MessageTrack [consumerGroup={self.consumer_group}, trackType={self.track_type}, "
            f"exceptionDesc={'null' if self.exception is None else self.exception}]"
        )


class Messages(Room):
    """Messages by id, and their fate.

    topic, group: names. unique_key: the msg_id of a SendResult. client_id: a member of the group.
    """

    def __init__(
        self, channel: Channel, brokers: Brokers, topics: Topics, groups: Groups, offsets: Offsets
    ) -> None:
        super().__init__(channel)
        self._brokers, self._topics = brokers, topics
        self._groups, self._offsets = groups, offsets
        self._unique_keys = UniqueKeys(channel)

    async def view(self, msg_id: str, topic: str | None = None) -> ReceivedMessage:
        """The message with an offset message id, from the broker that the id names, or with a
        unique key, the msg_id of a SendResult.

        topic: the topic to search for a unique key; None searches every topic. An offset id that
        leads to nothing is looked up as a unique key if a topic is given, as in RocketMQ. A broker
        whose address has changed since it stored the message is found too. Raises ValueError if the
        text is neither, BrokerError or NotFoundError if no such message is stored, ProtocolError if
        the message arrived damaged.
        """
        where = parse_offset_msg_id(msg_id)
        if not 0 < where.port < 65536 or where.physical_offset < 0:
            return await self._unique_keys.find(msg_id, topic)
        failure: RocketMQError | None = None
        found = None
        try:
            found = await self._at(_address(where), where, msg_id)
        except (BrokerError, NotFoundError, UnreachableError, ClientTimeout) as error:
            failure = error
        is_other = found is not None and found.offset_msg_id != msg_id.upper()
        if is_other or isinstance(failure, (UnreachableError, ClientTimeout)):
            found = await self._of_moved_broker(where, msg_id) or found
        if found is not None:
            return found
        if topic is None:
            assert failure is not None
            raise failure
        return await self._unique_keys.find(msg_id, topic)

    async def _at(
        self, address: str, where: OffsetMessageId, msg_id: str, broker_name: str = ""
    ) -> ReceivedMessage:
        call = message_calls.view_message(where.physical_offset)
        body = await self._channel.ask_broker(address, call)
        found, damaged = decode_reply(body, broker_name)
        if damaged:
            raise ProtocolError(f"message {msg_id} is damaged: {damaged[0]}", address)
        if not found:
            raise NotFoundError(f"broker {address} has no message {msg_id}; it may have expired")
        return found[0]

    async def _of_moved_broker(self, where: OffsetMessageId, msg_id: str) -> ReceivedMessage | None:
        """The message with an offset id, from a broker that has another address now."""
        try:
            known = (await self._brokers.clusters()).broker_addr_table
        except RocketMQError:
            return None
        for name, data in sorted(known.items()):
            address = reachable(data)
            if address is None or address == _address(where):
                continue
            try:
                found = await self._at(address, where, msg_id, name)
            except RocketMQError:
                continue
            if found.offset_msg_id == msg_id.upper():
                return found
        return None

    async def query(
        self,
        topic: str,
        key: str,
        *,
        max_count: int = QUERY_COUNT,
        begin: datetime | None = None,
        end: datetime | None = None,
    ) -> list[ReceivedMessage]:
        """Messages of a topic that have a key, oldest first (`queryMessage`).

        max_count: at most this many, of each broker and in all. begin, end: store times,
        aware datetimes; None does not limit them. Raises NoRouteError, NotFoundError when there is
        none, TypeError, ValueError.
        """
        begin_ms = 0 if begin is None else milliseconds("begin", begin)
        end_ms = _TIME_MAX_MS if end is None else milliseconds("end", end)
        return await self._unique_keys.query(topic, key, max_count, begin_ms, end_ms)

    async def copies(self, topic: str, unique_key: str) -> list[ReceivedMessage]:
        """The copies of a message with a unique key, oldest first (`queryMessageByUniqKey`).

        A message that is sent again after a timeout has several. Raises NoRouteError, and
        BrokerError (NO_MESSAGE) when there is none.
        """
        return await self._unique_keys.copies(topic, unique_key)

    async def trace(self, msg_id: str, topic: str = TRACE_TOPIC) -> list[TracePoint]:
        """The records of message trace about a message: its send and its deliveries.

        msg_id: the msg_id of the send. topic: the trace topic. Raises NoRouteError, and BrokerError
        (NO_MESSAGE) when nothing was recorded.
        """
        carriers = await self.query(topic, msg_id)
        return [point for carrier in carriers for point in trace_points(carrier, msg_id)]

    async def read(
        self,
        queue: MessageQueue,
        offset: int,
        count: int = 32,
        *,
        tags: str = "*",
        group: str | None = None,
    ) -> QueuePage:
        """Messages of a queue from an offset on, as they are now; joins and commits nothing.

        count: at most this many; the broker may return fewer. tags: "A || B". group: in whose name
        to read, for access control; None is RocketMQ's group of tools.
        """
        call = page_call(queue, offset, count, tags, group)
        return page_of(
            await self._channel.ask_broker(await self._channel.master_of(queue), call), queue, tags
        )

    async def find(
        self,
        topic: str,
        *,
        tags: str = "*",
        key: str | None = None,
        body: str | None = None,
        json: str | None = None,
        begin: datetime | None = None,
        end: datetime | None = None,
        group: str | None = None,
        queues: Iterable[MessageQueue] | None = None,
        start: Place | None = None,
        count: int | None = None,
    ) -> Search:
        """Go through the stored messages of a topic and find those that meet every condition.

        tags: "A || B". key: a regular expression, in the syntax of Rust's crate `regex`, which is
        found in one of the message's keys. body: a text in the body. json: JSONPath (RFC 9535) that
        selects a value of the body, "$.items[?@.price > 100]", or a condition on the whole body,
        "@.order == 17". begin, end: store times, aware datetimes; messages stored at `begin` are
        searched, messages stored at `end` are not. group: only what this group has not read.
        queues: only these. start: the place where an earlier search ended. count: at most this
        many messages are found.

        The search ends at the messages that are stored now, and joins no group. Raises NoRouteError
        for an unknown topic, NotFoundError for a group without an offset in the topic, ValueError.
        """
        if count is not None and count < 1:
            raise ValueError(f"count must be at least 1, not {count}")
        wanted = tags_of(tags)
        conditions = Conditions(tags=set(wanted) or None, key=key, body=body, json=json)
        extent = Extent(
            topic,
            begin_ms=None if begin is None else milliseconds("begin", begin),
            end_ms=None if end is None else milliseconds("end", end),
            group=group,
            queues=None if queues is None else frozenset(queues),
            start=start,
        )
        planner = SearchPlanner(self._channel, self._topics, self._offsets)
        return await planner.search(extent, conditions, wanted, count)

    async def resume_check(self, offset_msg_id: str) -> None:
        """Have the broker ask about a half message again (`resumeCheckHalfMessage`).

        offset_msg_id: the half message's offset message id, which names the broker.
        Raises ValueError for another id, BrokerError when the broker refuses.
        """
        where = parse_offset_msg_id(offset_msg_id)
        await self._channel.ask_broker(_address(where), message_calls.resume_check(offset_msg_id))

    async def consume_directly(
        self, group: str, client_id: str, message: ReceivedMessage
    ) -> ConsumeMessageDirectlyResult:
        """Let one member of a group consume a message now, without moving any offset.

        Raises NoRouteError if the group never existed, BrokerError 206 if no member has this id.
        """
        call = message_calls.consume_directly(group, client_id, message.offset_msg_id)
        return await self._channel.ask_any_of_group(group, call, slow=True)

    async def track(self, message: ReceivedMessage) -> list[MessageTrack]:
        """The fate of a message in each group that reads its topic."""
        groups = await self._topics.consumed_by(message.topic)
        return [await self._track(message, group) for group in groups]

    async def _track(self, message: ReceivedMessage, group: str) -> MessageTrack:
        try:
            connection = await self._groups.connection(group)
            if connection.consume_type == "CONSUME_ACTIVELY":
                return MessageTrack(group, "PULL")
            if connection.message_model == "BROADCASTING":
                return MessageTrack(group, "CONSUME_BROADCASTING")
            if not await self._has_passed(message, group):
                return MessageTrack(group, "NOT_CONSUME_YET")
        except NotFoundError as error:
            return MessageTrack(group, "NOT_ONLINE", str(error))
        except BrokerError as error:
            offline = error.code == ResponseCode.CONSUMER_NOT_ONLINE
            words = f"CODE:{error.code} DESC:{error.remark}"
            return MessageTrack(group, "NOT_ONLINE" if offline else "UNKNOWN", words)
        except RocketMQError as error:
            return MessageTrack(group, "UNKNOWN", str(error))
        return MessageTrack(group, _fate(message, connection))

    async def _has_passed(self, message: ReceivedMessage, group: str) -> bool:
        """Whether a group's committed offset is beyond a message."""
        stats = await self._offsets.progress(group)
        known = await self._brokers.clusters()
        for queue, offset in stats.offset_table.items():
            if (queue.topic, queue.queue_id) != (message.topic, message.queue_id):
                continue
            data = known.broker_addr_table.get(queue.broker_name)
            address = data.master if data else None
            if message.broker_name == queue.broker_name or (
                not message.broker_name and address == message.store_host
            ):
                return offset.consumer_offset > message.queue_offset
        return False


def _address(where: OffsetMessageId) -> str:
    host = f"[{where.host}]" if ":" in where.host else where.host
    return f"{host}:{where.port}"


def _fate(message: ReceivedMessage, connection: ConsumerConnection) -> TrackType:
    """Consumed, unless the group's tags exclude the message."""
    subscription = connection.subscription_table.get(message.topic)
    tags = subscription.tags_set if subscription else []
    if not tags or "*" in tags or message.tags in tags:
        return "CONSUMED"
    return "CONSUMED_BUT_FILTERED"

"""The lite pull consumer's asyncio face: the caller asks for messages, and says where to read.

Rules: RocketMQ 4.9 `DefaultLitePullConsumerImpl`. Unlike there, a message counts as handled only
when the caller asks for the next one, and a commit is written to the broker at once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Self, TypeVar

from mqclient.consumer.filter_check import FilterChecks
from mqclient.consumer.lite.buffer import LiteBuffer, LiteQueue
from mqclient.consumer.lite.lite_assignment import AssignmentListener, LiteAssignment
from mqclient.consumer.offset_store import OFFSET_TIMEOUT, MemoryOffsets, RemoteOffsets
from mqclient.consumer.subscription import SqlFilter, Subscription, subscription_of
from mqclient.engine.async_client import AsyncClient
from mqclient.engine.callables import check_takes
from mqclient.engine.client import Client
from mqclient.engine.first_at import asking, first_at
from mqclient.engine.parallel import in_parallel
from mqclient.errors import BrokerError, ClientTimeout, RocketMQError
from mqclient.settings.checks import check_range, check_readable, milliseconds, seconds
from mqclient.settings.consumers import LitePullOptions
from mqclient.settings.declare import explained, takes
from mqcommon.message import MessageQueue, ReceivedMessage, queue_of
from mqcommon.names import TOOLS_GROUP
from mqcommon.wire.bodies.heartbeat import ConsumerData
from mqcommon.wire.calls import offset_calls
from mqcommon.wire.calls.call import Call
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame

__all__ = ["Committable", "LitePullConsumer"]

log = logging.getLogger(__name__)
R = TypeVar("R")
Committable = ReceivedMessage | Iterable[ReceivedMessage] | Mapping[MessageQueue, int] | None
"""What `commit` takes."""
POLL_COUNT_MAX = 65535


@explained
class LitePullConsumer(AsyncClient):
    """Reads topics, or queues, when the caller asks. The asyncio face; `mqclient.LitePullConsumer`
    is the same for threads.

        async with LitePullConsumer("order_readers", "127.0.0.1:9876") as consumer:
            consumer.subscribe("TopicTest", "TagA || TagB")
            async for message in consumer:
                print(message.body)

    A queue's position moves past a message when the next one is asked for. A loop that is left by
    an exception, a cancellation or `break` therefore leaves the message in hand uncommitted.
    """

    @takes(LitePullOptions)
    def __init__(self, options: LitePullOptions) -> None:
        self.settings = options
        self._client = client = Client(options)
        self._subscriptions: dict[str, Subscription] = {}
        self._checks = FilterChecks(client, self.settings.group or TOOLS_GROUP)
        self._buffer = LiteBuffer(self.settings)
        self._assignment = LiteAssignment(
            client,
            self.settings,
            MemoryOffsets()
            if self.settings.group is None
            else RemoteOffsets(
                client,
                self.settings.group,
                zero_if_new=False if isinstance(self.settings.consume_from, datetime) else None,
            ),
            self._subscriptions,
            self._buffer,
        )
        if options.group is not None:
            client.set_consumer(options.group, self._consumer_data)
            client.on_request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, self._members_changed)
        self._reads = False  # becomes true with `subscribe` or `assign`
        self._closing: asyncio.Task[None] | None = None

    # --- life

    async def start(self) -> None:
        """Join the group, if there is one, and begin to pull.

        Raises UnreachableError or ClientTimeout when no NameServer answers, BrokerError when a
        broker refuses a SqlFilter.
        """
        await self._client.start(self._begin)

    async def _begin(self) -> None:
        client = self._client
        await client.routes.refresh_all(self._subscriptions)
        await in_parallel(self._checks.check, list(self._subscriptions.values()))
        client.check_running()  # a close may have come meanwhile
        client.on_route_change(self._route_changed)
        await client.heartbeat()
        client.spawn(self._assignment.run(), "rebalancing")
        interval = self.settings.commit_interval
        if interval is not None:
            commits = client.every(interval, self._assignment.commit_moved, first=interval)
            client.spawn(commits, "offset commits")

    async def close(self, timeout: float = 20.0) -> None:
        """Stop pulling, commit handled messages unless commit_interval is None, leave the group.

        A loop over the consumer ends. timeout: seconds for the brokers' answers. May be called
        twice.
        """
        limit = seconds(timeout)
        self._client.check_loop()
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(limit))
        await asyncio.shield(self._closing)

    async def _close(self, limit: float) -> None:
        self._buffer.close()
        await self._checks.cancel()
        if self._client.running:
            await self._assignment.stop()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await self._assignment.commit_moved()
        await self._client.close(limit)

    def __repr__(self) -> str:
        return f"<LitePullConsumer {self.settings.group} {self._client.client_id}>"

    # --- what to read

    def subscribe(self, topic: str, expression: str | SqlFilter = "*") -> None:
        """Read this member's share of a topic; before or after the start.

        expression: tags "TagA || TagB", "*" for every message, or a SqlFilter. Every member of
        the group must have the same subscriptions. Raises TypeError, ValueError, also without a
        group and after `assign`.

        A broker checks a SqlFilter at the start; a running consumer lets a broker check it before
        using it. If the broker refuses it, the error is logged, and the next `wait_assigned`
        raises BrokerError.
        """
        subscription = subscription_of(topic, expression, None)
        topic = subscription.data.topic = check_readable(self._client.namespace.wrap(topic))
        if self.settings.group is None:
            raise ValueError(
                "a consumer without a group cannot subscribe; name a group, or assign queues: "
                "consumer.assign(await consumer.queues(topic))"
            )
        if self._assignment.chosen is not None:
            raise ValueError(
                "this consumer reads assigned queues, and subscribe excludes assign; use another "
                "consumer to subscribe"
            )
        self._reads = True
        if self._client.running and isinstance(expression, SqlFilter):
            self._checks.begin(subscription, self._accept)
        else:
            self._checks.forget(topic)
            self._accept(subscription)

    async def _subscribe_checked(self, topic: str, expression: str | SqlFilter) -> None:
        """Subscribe, and raise a refusal of the filter; for the blocking face."""
        self.subscribe(topic, expression)
        await self._checks.finish(self._client.namespace.wrap(topic))

    def _accept(self, subscription: Subscription) -> None:
        topic = subscription.data.topic
        before = self._subscriptions.get(topic)
        if before is not None:
            subscription.initial, subscription.balanced = before.initial, before.balanced
        self._subscriptions[topic] = subscription
        self._assignment.pull_again(topic)
        self._heartbeat_soon()

    def unsubscribe(self, topic: str) -> None:
        """Stop reading a topic; unknown topics are ignored."""
        topic = self._client.namespace.wrap(topic)
        self._checks.forget(topic)
        if self._assignment.chosen is None and self._subscriptions.pop(topic, None) is not None:
            self._assignment.retire(self._assignment.of_topic(topic))
            self._heartbeat_soon()

    def assign(self, queues: Iterable[MessageQueue], expression: str | SqlFilter = "*") -> None:
        """Read exactly these queues, whatever other members do; replaces an earlier assignment.

        expression: as in `subscribe`, for all their topics. Queues that were assigned before keep
        their position. Raises TypeError, ValueError, also after `subscribe`.
        """
        chosen = frozenset(self._wire(queue) for queue in queues)
        if self._assignment.chosen is None and self._subscriptions:
            topics = ", ".join(sorted(self._subscriptions))
            raise ValueError(
                f"this consumer subscribes to {topics}, and assign excludes subscribe; use "
                "another consumer to assign queues"
            )
        topics_of = {queue.topic for queue in chosen}
        subscriptions = {topic: subscription_of(topic, expression, None) for topic in topics_of}
        self._reads = True
        self._assignment.chosen = chosen
        self._assignment.retire(queue for queue in self._assignment.held if queue not in chosen)
        self._subscriptions.clear()
        self._subscriptions.update(subscriptions)
        for topic in subscriptions:
            self._assignment.pull_again(topic)
        self._heartbeat_soon()

    def on_assignment(self, listener: AssignmentListener) -> None:
        """Call `listener(gained, lost)` when queues come or go; it may be `async def`.

        The positions of lost queues can still be read and committed in it; auto-commit follows
        it. Its exceptions are logged.
        """
        check_takes("listener", listener, "gained", "lost")
        self._assignment.listener = listener

    def assigned(self) -> list[MessageQueue]:
        """The queues that this consumer reads now."""
        return self._client.namespace.unwrap_queues(sorted(self._assignment.held))

    async def wait_ready(self, timeout: float = 20.0) -> None:
        """Wait until a NameServer answers and the consumer has its queues.

        timeout: seconds. Raises as `wait_assigned` does.
        """
        await self.wait_assigned(timeout)

    async def wait_assigned(self, timeout: float = 20.0) -> list[MessageQueue]:
        """Wait until the group has shared every subscribed topic once, or the assigned queues are
        read.

        Returns this consumer's queues, which may be none if the group has more members than
        queues. Raises ClientTimeout, BrokerError when a broker refuses a SqlFilter.
        """
        self._client.check_running()
        limit = seconds(timeout)
        await self._checks.finish()
        try:
            async with asyncio.timeout(limit):
                await self._assignment.wait_balanced()
        except TimeoutError:
            names = sorted(t for t, item in self._subscriptions.items() if not item.balanced)
            trouble = self._assignment.trouble
            cause = f"{trouble}; " if trouble else "does the topic exist? "
            raise ClientTimeout(
                f"no queue of {', '.join(names)} was assigned within {limit:g} s; {cause}"
                f"mqadmin topicRoute -n {self._client.settings.servers[0]} -t {names[0]}"
            ) from None
        return self.assigned()

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that can be read. Raises NoRouteError if there is none."""
        self._client.check_running()
        names = self._client.namespace
        topic = names.wrap(check_readable(topic))
        route = await self._client.routes.refresh(topic)
        if route is None:
            raise await self._client.routes.no_route(topic)
        if not route.subscribe:
            raise self._client.routes.not_readable(topic)
        return names.unwrap_queues(route.subscribe)

    # --- messages

    def __aiter__(self) -> Self:
        self._check_reads()
        return self

    def _check_reads(self) -> None:
        """Raise ClosedError unless it runs, ValueError without a subscription or assignment."""
        self._client.check_running()
        if not self._reads:
            raise ValueError("nothing to read; call subscribe(topic) or assign(queues) first")

    async def __anext__(self) -> ReceivedMessage:
        """Wait for the next message; the iteration ends when the consumer is closed.

        Raises BrokerError when a broker refuses the pulls, for example for missing permission.
        """
        message = self._buffer.take()
        if message is not None:
            return message
        self._client.check_loop()
        await asyncio.sleep(0)  # lets pulls run even if the caller never waits
        message = await self._buffer.next()
        if message is None:
            raise StopAsyncIteration
        return message

    async def poll(self, max_messages: int = 32, timeout: float = 5.0) -> list[ReceivedMessage]:
        """Wait for messages; returns those at hand, at most `max_messages`, in any queues' order.

        timeout: seconds to wait for the first one; after it the list is empty. Positions move past
        them with the next `poll`. Raises as iterating does, ClosedError after a close.
        """
        self._check_reads()
        check_range("max_messages", max_messages, 1, POLL_COUNT_MAX)
        limit = seconds(timeout)
        await asyncio.sleep(0)
        return await self._buffer.take_many(max_messages, limit)

    def _take(self) -> ReceivedMessage | None:
        """For the blocking client: the next message if one is buffered, without the loop."""
        return self._buffer.take()

    def _take_back(self, _lost: object) -> None:
        """For the blocking client: return the messages that a cancelled call did not deliver."""
        self._buffer.take_back()

    def pause(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Hand out and pull no more messages of these queues, None means all, until `resume`.

        Raises ValueError for a queue that is not assigned.
        """
        for held in self._chosen(queues):
            self._buffer.pause(held)

    def resume(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """Continue paused queues, None means all; ValueError for one that is not assigned."""
        for held in self._chosen(queues):
            self._buffer.resume(held)

    def _chosen(self, queues: Iterable[MessageQueue] | None) -> list[LiteQueue]:
        self._client.check_running()
        if queues is None:
            return list(self._assignment.held.values())
        return [self._assignment.held_of(self._wire(queue)) for queue in queues]

    # --- positions

    async def seek(self, queue: MessageQueue, to: int | datetime) -> None:
        """Read a queue from an offset on, or from the first message stored at or after a time.

        to: an offset between the queue's minimum and maximum, or an aware datetime. Raises
        ValueError for another offset and for a queue that is not assigned, TypeError, BrokerError,
        UnreachableError, ClientTimeout.
        """
        await self._held(queue)
        if isinstance(to, datetime):
            offset = await self.offset_for_timestamp(queue, to)
        elif isinstance(to, bool) or not isinstance(to, int):
            raise TypeError(f"seek takes an offset or a datetime, not {type(to).__name__}")
        else:
            offset = to
            low, high = await asyncio.gather(
                self._ask(queue, offset_calls.min_offset), self._ask(queue, offset_calls.max_offset)
            )
            if not low <= offset <= high:
                raise ValueError(
                    f"{queue} has no offset {offset}: it holds {low} to {high}; seek there, or "
                    "use seek_to_begin or seek_to_end"
                )
        self._assignment.move(self._wire(queue), offset)

    async def seek_to_begin(self, queue: MessageQueue) -> None:
        """Read a queue from its first message on. Raises as `seek` does."""
        await self._held(queue)
        self._assignment.move(self._wire(queue), await self._ask(queue, offset_calls.min_offset))

    async def seek_to_end(self, queue: MessageQueue) -> None:
        """Read only messages that come after this call. Raises as `seek` does."""
        await self._held(queue)
        self._assignment.move(self._wire(queue), await self._ask(queue, offset_calls.max_offset))

    async def offset_for_timestamp(self, queue: MessageQueue, when: datetime) -> int:
        """Offset of the first message stored at or after a time, the queue's end if there is none.

        when: an aware datetime. The queue need not be assigned. Raises TypeError, ValueError,
        BrokerError, UnreachableError, ClientTimeout.
        """
        when_ms = milliseconds("when", when)
        self._client.check_running()
        asked = self._wire(queue)
        await self._client.routes.get(asked.topic)
        invoke = partial(
            self._client.invoke, self._client.address_of(asked), timeout=OFFSET_TIMEOUT
        )
        return await first_at(asking(invoke), asked, self.settings.group or TOOLS_GROUP, when_ms)

    async def position(self, queue: MessageQueue) -> int:
        """Offset of the first message that is not handled: the one in hand, or the next.

        Raises ValueError for a queue that is not assigned, ClientTimeout if its start is unknown.
        """
        return (await self._held(queue)).position

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset of a queue, None when there is none.

        The queue need not be assigned. Raises ValueError without a group, BrokerError,
        UnreachableError, ClientTimeout.
        """
        group = self._group()
        return await self._ask(
            queue, lambda asked: offset_calls.query_consumer_offset(group, asked)
        )

    async def commit(self, what: Committable = None) -> None:
        """Write offsets to the brokers, whatever commit_interval is, and wait for their answers.

        what: None commits all positions, so not the messages in hand. A message, or several, count
        as handled with all before them; messages of queues that this consumer lost are ignored, and
        so are messages from before a seek. A mapping of queues to offsets is committed as it is.
        Raises ValueError without a group, TypeError, BrokerError,
        UnreachableError, ClientTimeout.
        """
        self._client.check_running()
        self._group()
        await self._assignment.commit(self._offsets(what))

    def _offsets(self, what: Committable) -> dict[MessageQueue, int]:
        if what is None:
            return self._assignment.positions()
        if isinstance(what, Mapping):
            for queue, offset in what.items():
                self._wire(queue)
                if isinstance(offset, bool) or not isinstance(offset, int):
                    raise TypeError(f"an offset must be int, not {type(offset).__name__}")
                if offset < 0:
                    raise ValueError(f"the offset of {queue} must be at least 0, not {offset}")
            return {self._wire(queue): offset for queue, offset in what.items()}
        offsets: dict[MessageQueue, int] = {}
        ends: dict[MessageQueue, int] = {}
        for message in [what] if isinstance(what, ReceivedMessage) else what:
            if not isinstance(message, ReceivedMessage):
                raise TypeError(f"commit takes received messages, not {type(message).__name__}")
            queue = self._wire(queue_of(message))
            held = self._assignment.held.get(queue)
            if held is None:
                continue
            if queue not in ends:
                ends[queue] = self._buffer.handed_out(held)
            if message.queue_offset < ends[queue]:
                held.acknowledged = max(held.acknowledged, message.queue_offset + 1)
            offsets[queue] = held.position
        return offsets

    def _wire(self, queue: MessageQueue) -> MessageQueue:
        """A caller's queue as the wire has it; TypeError for anything else."""
        if not isinstance(queue, MessageQueue):
            raise TypeError(f"a queue must be a MessageQueue, not {type(queue).__name__}")
        names = self._client.namespace
        return names.wrap_queue(queue) if names else queue

    async def _held(self, queue: MessageQueue) -> LiteQueue:
        self._client.check_running()
        limit = self._client.settings.request_timeout
        return await self._assignment.queue(self._wire(queue), limit)

    async def _ask(self, queue: MessageQueue, question: Callable[[MessageQueue], Call[R]]) -> R:
        """Ask the broker of a caller's queue; the question is made for the queue on the wire."""
        self._client.check_running()
        asked = self._wire(queue)
        await self._client.routes.get(asked.topic)
        address = self._client.address_of(asked)
        return await self._client.invoke(address, question(asked), OFFSET_TIMEOUT)

    def _group(self) -> str:
        if self.settings.group is None:
            raise ValueError(
                "this consumer has no group, so nothing is committed; make it with a group: "
                "LitePullConsumer('order_readers', ...)"
            )
        return self.settings.group

    # --- wiring

    def _consumer_data(self) -> ConsumerData:
        by_hand = self._assignment.chosen is not None
        return ConsumerData(
            self._group(),
            consume_type="CONSUME_ACTIVELY",
            subscription_data_set=[]
            if by_hand
            else [item.data for item in self._subscriptions.values()],
        )

    async def _members_changed(self, _address: str, request: Frame) -> None:
        if request.fields.get("consumerGroup") == self.settings.group:
            self._assignment.rebalance_soon()

    def _route_changed(self, topic: str) -> None:
        if topic in self._subscriptions:
            self._heartbeat_soon()

    def _heartbeat_soon(self) -> None:
        """Send the subscriptions to the brokers, then rebalance; does nothing before the start."""
        if self._client.running:
            self._client.spawn(self._heartbeat_then_rebalance(), "heartbeat")

    async def _heartbeat_then_rebalance(self) -> None:
        """Ask for the routes first, because only known brokers get a heartbeat.

        A refused filter is raised where the caller asks for messages.
        """
        await in_parallel(self._look_up, list(self._subscriptions.values()))
        await self._client.heartbeat()
        self._assignment.rebalance_soon()

    async def _look_up(self, item: Subscription) -> None:
        topic = item.data.topic
        try:
            await self._client.routes.get(topic)
            await self._checks.check(item)
        except BrokerError as error:
            item.checked = True
            self._buffer.fail(error)
        except RocketMQError as error:
            log.debug("topic %s: %s", topic, error)

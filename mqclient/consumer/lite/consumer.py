"""The lite pull consumer's asyncio face: the caller asks for messages, and says where to read.

Rules: RocketMQ 4.9 `DefaultLitePullConsumerImpl`. Unlike there, a message counts as handled only
when the caller asks for the next one or commits, and a commit is written to the broker at once.
"""

import asyncio
import contextlib
import logging
from collections.abc import Iterable, Mapping
from typing import Self

from mqclient.consumer.consumer import Consumer
from mqclient.consumer.lite.buffer import LiteBuffer, LiteQueue
from mqclient.consumer.lite.lite_assignment import LiteAssignment
from mqclient.consumer.offset_store import MemoryOffsets, remote_offsets
from mqclient.consumer.subscription import SqlFilter, Subscription, Topic, subscription_of
from mqclient.engine.parallel import in_parallel
from mqclient.engine.serializing import OfValues, V
from mqclient.errors import BrokerError, RocketMQError
from mqclient.settings.checks import answer_timeout, check_range, check_readable, seconds
from mqclient.settings.consumers import LitePullOptions
from mqclient.settings.declare import explained, takes
from mqcommon.message import MessageQueue, ReceivedMessage, queue_of
from mqcommon.wire.bodies.heartbeat import SQL92, ConsumerData
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame

__all__ = ["Committable", "LitePullConsumer"]

log = logging.getLogger(__name__)
Committable = ReceivedMessage | Iterable[ReceivedMessage] | Mapping[MessageQueue, int] | None
"""What `commit` takes."""
POLL_COUNT_MAX = 65535


@explained
class LitePullConsumer(Consumer, OfValues[V]):
    """Reads topics, or queues, when the caller asks. The asyncio face; `mqclient.LitePullConsumer`
    is the same for threads.

        async with LitePullConsumer("order_readers", "127.0.0.1:9876") as consumer:
            consumer.subscribe("TopicTest", "TagA || TagB")
            async for message in consumer:
                print(message.body)

    A queue's position moves past a message when the next one is asked for, or by `commit`. A loop
    that is left by an exception, a cancellation or `break` therefore leaves the message in hand
    uncommitted.
    """

    settings: LitePullOptions

    @takes(LitePullOptions)
    def __init__(self, options: LitePullOptions[V]) -> None:
        super().__init__(options)
        client = self._client
        self._buffer = LiteBuffer(options)
        self._offsets = (
            MemoryOffsets() if options.group is None else remote_offsets(client, options)
        )
        self._assignment: LiteAssignment = LiteAssignment(
            client, options, self._offsets, self._subscriptions, self._buffer
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
        await self._find_topics()
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
        self._report_lags()

    async def close(self, timeout: float = 20.0) -> None:
        """Stop pulling, commit handled messages unless commit_interval is None, leave the group.

        A loop over the consumer ends. timeout: seconds for the brokers' answers. May be called
        twice; in a function of `on_rebalance` it returns at once.
        """
        limit = seconds(timeout)
        self._client.check_loop()
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(limit))
        if not self._in_handler:
            await asyncio.shield(self._closing)

    async def _close(self, limit: float) -> None:
        self._buffer.close()
        await self._checks.cancel()
        if self._client.running:
            await self._assignment.stop()
            await self._assignment.tell_end(limit)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(limit):
                    await self._assignment.commit_moved()
            for held in self._assignment.held.values():
                self._buffer.tell_rest(held)
        await self._client.close(limit)

    def __repr__(self) -> str:
        return f"<LitePullConsumer {self.settings.group} {self._client.client_id}>"

    # --- what to read

    def subscribe(self, topic: Topic, expression: str | SqlFilter = "*") -> None:
        """Read this member's share of a topic; before or after the start.

        topic: its name, or a compiled pattern: every topic whose whole name matches is read, never
        RocketMQ's own. Topics that appear later are found within route_poll_interval (30 s), and
        read from their beginning; a topic that is subscribed by name keeps that subscription.
        expression: tags "TagA || TagB", "*" for every message, or a SqlFilter. Every member of
        the group must have the same subscriptions. Raises TypeError, ValueError, also without a
        group and after `assign`.

        A broker checks a SqlFilter at the start; a running consumer lets a broker check it before
        using it. If the broker refuses it, the error is logged, and the next `wait_assigned`
        raises BrokerError.
        """
        subscription = subscription_of(topic, expression)
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
        data = subscription.data
        if subscription.pattern is None:
            data.topic = check_readable(self._client.namespace.wrap(data.topic))
        if subscription.pattern is None and self._client.running and data.expression_type == SQL92:
            self._checks.begin(subscription, self._accept)
        else:
            self._checks.forget(data.topic)
            self._accept(subscription)

    async def _subscribe_checked(self, topic: Topic, expression: str | SqlFilter) -> None:
        """Subscribe, and raise a refusal of the filter; for the blocking face."""
        self.subscribe(topic, expression)
        if isinstance(topic, str):
            await self._checks.finish(self._client.namespace.wrap(topic))

    def _keep(self, subscription: Subscription) -> None:
        topic = subscription.data.topic
        before = self._subscriptions.get(topic)
        if before is not None:
            subscription.initial, subscription.balanced = before.initial, before.balanced
        self._subscriptions[topic] = subscription
        self._assignment.pull_again(topic)

    def _drop_topic(self, topic: str) -> None:
        if self._subscriptions.pop(topic, None) is not None:
            self._assignment.retire(self._assignment.of_topic(topic))

    def assign(self, queues: Iterable[MessageQueue], expression: str | SqlFilter = "*") -> None:
        """Read exactly these queues, whatever other members do; replaces an earlier assignment.

        expression: as in `subscribe`, for all their topics. Queues that were assigned before keep
        their position. Raises TypeError, ValueError, also after `subscribe`.
        """
        chosen = frozenset(self._wire(queue) for queue in queues)
        if self._assignment.chosen is None and (self._subscriptions or self._patterns):
            topics = ", ".join(sorted(self._subscriptions)) or "patterns"
            raise ValueError(
                f"this consumer subscribes to {topics}, and assign excludes subscribe; use "
                "another consumer to assign queues"
            )
        topics_of = {queue.topic for queue in chosen}
        subscriptions = {topic: subscription_of(topic, expression) for topic in topics_of}
        self._reads = True
        self._assignment.chosen = chosen
        self._assignment.retire(queue for queue in self._assignment.held if queue not in chosen)
        self._subscriptions.clear()
        self._subscriptions.update(subscriptions)
        for topic in subscriptions:
            self._assignment.pull_again(topic)
        self._heartbeat_soon()

    # --- messages

    def __aiter__(self) -> Self:
        self._check_reads()
        return self

    def _check_reads(self) -> None:
        """Raise ClosedError unless it runs, ValueError without a subscription or assignment."""
        self._client.check_running()
        if not self._reads:
            raise ValueError("nothing to read; call subscribe(topic) or assign(queues) first")

    async def __anext__(self) -> ReceivedMessage[V]:
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

    async def poll(self, max_messages: int = 500, timeout: float = 5.0) -> list[ReceivedMessage[V]]:
        """Wait for messages; returns those at hand, at most `max_messages`, in any queues' order.

        timeout: seconds to wait for the first one; after it the list is empty. Positions move past
        them with the next `poll`. Raises as iterating does, ClosedError after a close.
        """
        self._check_reads()
        if isinstance(max_messages, float):
            raise TypeError(f"max_messages must be int, not float; poll(timeout={max_messages})?")
        check_range("max_messages", max_messages, 1, POLL_COUNT_MAX)
        limit = answer_timeout(timeout)
        await asyncio.sleep(0)
        return await self._buffer.take_many(max_messages, limit)

    def _take(self) -> ReceivedMessage[V] | None:
        """For the blocking client: the next message if one is buffered, without the loop."""
        return self._buffer.take()

    def _take_back(self, _lost: object) -> None:
        """For the blocking client: return the messages that a cancelled call did not deliver."""
        self._buffer.take_back()

    def _pause(self, held: LiteQueue) -> None:
        self._buffer.pause(held)

    def _resume(self, held: LiteQueue) -> None:
        self._buffer.resume(held)

    # --- commits

    async def commit(self, what: Committable = None) -> None:
        """Write offsets to the brokers, whatever commit_interval is, and wait for their answers.

        what: None counts every message that you were given as handled, those of the last `poll`
        too. A message, or several, count as handled with all before them; messages of queues that
        this consumer lost are ignored, and so are messages from before a seek. A mapping of queues
        to offsets is committed as it is. Raises ValueError without a group, TypeError, BrokerError,
        UnreachableError, ClientTimeout.
        """
        self._client.check_running()
        self._group()
        await self._assignment.commit(self._committable(what))

    def _committable(self, what: Committable) -> dict[MessageQueue, int]:
        if what is None:
            for one in self._assignment.held.values():
                if not one.dropped:
                    one.acknowledged = max(one.acknowledged, self._buffer.handed_out(one))
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

    async def _held(self, queue: MessageQueue) -> LiteQueue:
        self._client.check_running()
        limit = self._client.settings.connection.request_timeout
        return await self._assignment.queue(self._wire(queue), limit)

    # --- wiring

    @property
    def _is_assigned(self) -> bool:
        return self._assignment.chosen is not None

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

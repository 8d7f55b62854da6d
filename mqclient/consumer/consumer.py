"""The common part of the push and the lite pull consumer: topics, queues, positions.

Rules: RocketMQ 4.9 `DefaultLitePullConsumerImpl`.
"""

import asyncio
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from mqclient.consumer.assignment import Assignment
from mqclient.consumer.filter_check import FilterChecks
from mqclient.consumer.lag import LAG_INTERVAL_S, Lag, OffsetAtTime, lag_of, tell_lag
from mqclient.consumer.offset_store import OFFSET_TIMEOUT, MemoryOffsets
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.rebalance_listener import LISTENER_TIMEOUT_S, QueuesFunction
from mqclient.consumer.subscription import SqlFilter, Subscription, Topic, check_topic
from mqclient.consumer.topic_patterns import TopicPatterns
from mqclient.engine.async_client import AsyncClient
from mqclient.engine.client import Client
from mqclient.engine.first_at import asking, first_at, first_message_at
from mqclient.engine.parallel import in_parallel
from mqclient.errors import ClientTimeout
from mqclient.settings.checks import check_readable, milliseconds, seconds
from mqclient.settings.consumers import LitePullOptions, PushOptions
from mqcommon.message import MessageQueue
from mqcommon.names import RETRY_PREFIX, TOOLS_GROUP
from mqcommon.wire.calls import offset_calls
from mqcommon.wire.calls.call import Call

__all__ = ["Consumer"]

R = TypeVar("R")
Queues = Iterable[MessageQueue] | None
"""Some queues; None means all queues of the consumer."""


class Consumer(AsyncClient):
    """Base of PushConsumer and LitePullConsumer."""

    settings: PushOptions | LitePullOptions
    _assignment: Assignment[Any]
    _offsets: MemoryOffsets

    def __init__(self, options: PushOptions | LitePullOptions) -> None:
        self.settings = options
        self._client = Client(options)
        self._subscriptions: dict[str, Subscription] = {}
        self._checks = FilterChecks(self._client, options.group or TOOLS_GROUP)
        self._patterns = TopicPatterns(
            self._client, self._subscriptions, self._keep, self._drop_topic
        )

    # --- topics and queues

    def unsubscribe(self, topic: Topic) -> None:
        """Stop reading a topic, or the topics of a pattern; unknown ones are ignored.

        A topic that is left by its name is not found by patterns again. Failed messages of a push
        consumer that no handler has yet are sent back, which counts as one more failure: members
        that still subscribe to the topic get them later.
        """
        check_topic(topic)
        if self._is_assigned:
            return
        if isinstance(topic, re.Pattern):
            self._patterns.remove(topic)
        else:
            name = self._client.namespace.wrap(topic)
            self._checks.forget(name)
            self._patterns.is_named(name, subscribed=False)
            self._drop_topic(name)
        self._heartbeat_soon()

    def _accept(self, subscription: Subscription) -> None:
        """Add a subscription of a topic, or of a pattern, and tell the brokers."""
        if subscription.pattern is not None:
            self._patterns.add(subscription)
            return
        self._patterns.is_named(subscription.data.topic, subscribed=True)
        self._keep(subscription)
        self._heartbeat_soon()

    @abstractmethod
    def _keep(self, subscription: Subscription) -> None:
        """Add the subscription of a topic, or replace it."""

    @abstractmethod
    def _drop_topic(self, topic: str) -> None:
        """Stop reading a topic, as named on the wire."""

    async def _find_topics(self) -> None:
        """At the start: subscribe to the topics of the patterns, and follow them from then on.

        Raises BrokerError, UnreachableError, ClientTimeout.
        """
        await self._patterns.look()
        interval = self._client.settings.connection.route_poll_interval
        follow = self._patterns.follow(interval, self._heartbeat_soon)
        self._client.spawn(follow, "topic patterns")

    def _route_changed(self, topic: str) -> None:
        if topic in self._subscriptions:
            self._heartbeat_soon()

    def _heartbeat_soon(self) -> None:
        """Send the subscriptions to the brokers, then rebalance; does nothing before the start."""
        if self._client.running:
            self._client.spawn(self._heartbeat_then_rebalance(), "heartbeat")

    @abstractmethod
    async def _heartbeat_then_rebalance(self) -> None:
        """Ask for the routes first, because only known brokers get a heartbeat."""

    @property
    def _in_handler(self) -> bool:
        """Whether the caller is a function of `on_rebalance`: it must not wait for its own end."""
        return self._assignment.listener.calling

    def subscription(self) -> dict[str, str | SqlFilter]:
        """The filter of each topic that is subscribed to, by name or by a pattern.

        Empty for a consumer whose queues are assigned.
        """
        unwrap = self._client.namespace.unwrap
        return {
            unwrap(topic): item.expression
            for topic, item in sorted(self._subscriptions.items())
            if not topic.startswith(RETRY_PREFIX) and not self._is_assigned
        }

    @property
    def _is_assigned(self) -> bool:
        """Whether the program assigned the queues, instead of subscribing."""
        return False

    def assignment(self) -> list[MessageQueue]:
        """The queues that this consumer reads now."""
        return self._client.namespace.unwrap_queues(self._assignment.shown)

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

    async def wait_ready(self, timeout: float = 20.0) -> None:
        """Wait until a NameServer answers and the consumer has its queues.

        timeout: seconds. Raises as `wait_assigned` does.
        """
        await self.wait_assigned(timeout)

    async def wait_assigned(self, timeout: float = 20.0) -> list[MessageQueue]:
        """Wait until the group has shared every subscribed topic once, or the assigned queues are
        read.

        timeout: seconds. Returns this consumer's queues, which may be none if the group has more
        members than queues. Raises ClientTimeout, BrokerError when a broker refuses a SqlFilter.
        """
        self._client.check_running()
        limit = seconds(timeout)
        await self._checks.finish()
        try:
            async with asyncio.timeout(limit):
                await self._patterns.looked()
                await self._assignment.wait_balanced()
        except TimeoutError:
            raise ClientTimeout(self._why_waiting(limit)) from None
        return self.assignment()

    def _why_waiting(self, limit: float) -> str:
        """Why no queues were assigned within a time, and what to do."""
        items = sorted(self._subscriptions.items())
        names = [t for t, item in items if not (item.balanced or t.startswith(RETRY_PREFIX))]
        servers = self._client.settings.servers
        if not names:
            trouble = self._patterns.trouble or "the NameServer has not answered"
            return f"the topics of the patterns are not known after {limit:g} s: {trouble}"
        cause = "does the topic exist? "
        if self._assignment.trouble is not None:
            cause = f"{self._assignment.trouble}; "
        return (
            f"no queue of {', '.join(names)} was assigned within {limit:g} s; {cause}"
            f"mqadmin topicRoute -n {servers[0]} -t {names[0]}"
        )

    def on_rebalance(
        self,
        *,
        assigned: QueuesFunction | None = None,
        revoked: QueuesFunction | None = None,
        lost: QueuesFunction | None = None,
        timeout: float = LISTENER_TIMEOUT_S,
    ) -> None:
        """Call functions with a list of queues when queues come and go; replaces earlier ones.

        assigned: before the first message of the queues, so that a `seek` in it misses none.
        revoked: before the queues are given up: finish or store your work, then what is handled is
        committed. With orderly=True the next member waits for that, else it may begin before it.
        lost: they are gone already (the broker left the route, another member holds the lock, the
        consumer failed): drop your work, commit nothing; None calls `revoked`.

        A plain function runs in a thread, `async def` on the loop. The rebalance waits for it, at
        most `timeout` seconds, and heartbeats go on. Do not wait in it for your own loop that reads
        messages. An exception is logged. `close()` calls `revoked` too. A rebalance may take
        several calls, one after the other.
        """
        self._assignment.listener.set(assigned, revoked, lost, timeout)

    # --- pause

    def pause(self, queues: Queues = None) -> None:
        """Pull no more messages of these queues, and hand none out, until `resume`.

        queues: None means all, also those that come later. A queue that this consumer loses
        meanwhile is not paused when it comes back. Running handlers end. The consumer stays in its
        group. Raises ValueError for a queue that is not assigned.
        """
        chosen = self._chosen(queues)
        self._assignment.pauses_new |= queues is None
        for held in chosen:
            if not held.paused:
                held.paused = True
                self._pause(held)

    def resume(self, queues: Queues = None) -> None:
        """Continue paused queues, None means all; ValueError for one that is not assigned."""
        chosen = self._chosen(queues)
        self._assignment.pauses_new &= queues is not None
        for held in chosen:
            if held.paused:
                held.paused = False
                self._resume(held)

    def paused(self) -> list[MessageQueue]:
        """The queues of this consumer that are paused."""
        held = self._assignment.held
        queues = [queue for queue in self._assignment.shown if held[queue].paused]
        return self._client.namespace.unwrap_queues(queues)

    @abstractmethod
    def _pause(self, held: Any) -> None:
        """Hand out no more messages of a queue."""

    @abstractmethod
    def _resume(self, held: Any) -> None:
        """Hand out messages of a queue again, and pull it."""

    def _chosen(self, queues: Queues) -> list[Any]:
        if queues is None:
            return list(self._assignment.held.values())
        self._client.check_running()
        return [self._assignment.held_of(self._wire(queue)) for queue in queues]

    # --- positions

    async def seek(self, queue: MessageQueue, to: int | datetime) -> None:
        """Read a queue from an offset on, or from the first message stored at or after a time.

        Messages of the queue that are held are dropped, and results of running handlers no longer
        count: the next commit is `to`. to: an offset between the queue's minimum and maximum, or an
        aware datetime. Raises ValueError for another offset and for a queue that is not assigned,
        TypeError, BrokerError, UnreachableError, ClientTimeout.
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

    async def position(self, queue: MessageQueue) -> int:
        """Offset of the first message that is not handled, which is committed next.

        Raises ValueError for a queue that is not assigned, ClientTimeout if its start is unknown.
        """
        return (await self._held(queue)).position

    async def committed(self, queue: MessageQueue) -> int | None:
        """The group's committed offset of a queue, None when there is none.

        The queue need not be assigned. Raises ValueError without a group, BrokerError,
        UnreachableError, ClientTimeout.
        """
        self._client.check_running()
        self._group()
        asked = self._wire(queue)
        await self._client.routes.get(asked.topic)
        return await self._offsets.fetch(asked)

    # --- offsets of queues

    async def beginning_offsets(self, queues: Queues = None) -> dict[MessageQueue, int]:
        """The first offset of each queue that can still be read. queues: None means this
        consumer's; others may be asked too. Raises BrokerError, UnreachableError, ClientTimeout."""
        return await self._of_each(queues, lambda queue: self._ask(queue, offset_calls.min_offset))

    async def end_offsets(self, queues: Queues = None) -> dict[MessageQueue, int]:
        """The offset that the next message of each queue will get. As `beginning_offsets`."""
        return await self._of_each(queues, lambda queue: self._ask(queue, offset_calls.max_offset))

    async def offsets_for_times(
        self, times: Mapping[MessageQueue, datetime]
    ) -> dict[MessageQueue, OffsetAtTime | None]:
        """The first message of each queue that was stored at or after a time; None without one.

        times: an aware datetime for each queue. Raises TypeError, ValueError, BrokerError,
        UnreachableError, ClientTimeout.
        """
        asked_ms = {queue: milliseconds("a time", when) for queue, when in times.items()}

        async def find(queue: MessageQueue) -> OffsetAtTime | None:
            group = self.settings.group or TOOLS_GROUP
            ask = asking(await self._invoke_at(queue))
            found = await first_message_at(ask, self._wire(queue), group, asked_ms[queue])
            return found and OffsetAtTime(found.queue_offset, found.store_timestamp)

        return await self._of_each(times, find)

    async def offset_for_timestamp(self, queue: MessageQueue, when: datetime) -> int:
        """Offset of the first message stored at or after a time, the queue's end if there is none.

        when: an aware datetime. The queue need not be assigned. Raises TypeError, ValueError,
        BrokerError, UnreachableError, ClientTimeout.
        """
        when_ms, group = milliseconds("when", when), self.settings.group or TOOLS_GROUP
        ask = asking(await self._invoke_at(queue))
        return await first_at(ask, self._wire(queue), group, when_ms)

    async def lag(self, queues: Queues = None) -> dict[MessageQueue, Lag]:
        """How far this consumer is behind in its queues, in messages and in time.

        queues: None means all. Raises ValueError for a queue that is not assigned, BrokerError,
        UnreachableError, ClientTimeout.
        """

        async def find(queue: MessageQueue) -> Lag:
            held = await self._held(queue)
            invoke = await self._invoke_at(queue)
            return await lag_of(invoke, held, self.settings.group or TOOLS_GROUP)

        return await self._of_each(queues, find)

    def _report_lags(self) -> None:
        """From the start on: tell the metrics, if there are any, how far this member is behind."""
        metrics, group = self.settings.metrics, self.settings.group or ""
        if metrics is not None:
            report = partial(tell_lag, metrics, group, self.lag)
            self._client.spawn(self._client.every(LAG_INTERVAL_S, report, first=0.0), "lag")

    async def _of_each(
        self, queues: Queues, ask: Callable[[MessageQueue], Any]
    ) -> dict[MessageQueue, Any]:
        """The answer for each queue, in their order, several asked at a time."""
        self._client.check_running()
        asked = self.assignment() if queues is None else list(queues)
        answers: dict[MessageQueue, Any] = {}

        async def add(queue: MessageQueue) -> None:
            answers[queue] = await ask(queue)

        await in_parallel(add, asked)
        return {queue: answers[queue] for queue in asked}

    # --- asking brokers

    def _wire(self, queue: MessageQueue) -> MessageQueue:
        """A caller's queue as the wire has it; TypeError for anything else."""
        if not isinstance(queue, MessageQueue):
            raise TypeError(f"a queue must be a MessageQueue, not {type(queue).__name__}")
        names = self._client.namespace
        return names.wrap_queue(queue) if names else queue

    async def _held(self, queue: MessageQueue) -> ProcessQueue:
        self._client.check_running()
        held: ProcessQueue = self._assignment.held_of(self._wire(queue))
        return held

    async def _invoke_at(self, queue: MessageQueue) -> Callable[[Call[Any]], Any]:
        """A function that calls the broker of a caller's queue."""
        self._client.check_running()
        asked = self._wire(queue)
        await self._client.routes.get(asked.topic)
        address = self._client.address_of(asked)
        return partial(self._client.invoke, address, timeout=OFFSET_TIMEOUT)

    async def _ask(self, queue: MessageQueue, question: Callable[[MessageQueue], Call[R]]) -> R:
        """Ask the broker of a caller's queue; the question is made for the queue on the wire."""
        invoke = await self._invoke_at(queue)
        answer: R = await invoke(question(self._wire(queue)))
        return answer

    def _group(self) -> str:
        if self.settings.group is None:
            raise ValueError(
                "this consumer has no group, so nothing is committed; make it with a group: "
                "LitePullConsumer('order_readers', ...)"
            )
        return self.settings.group

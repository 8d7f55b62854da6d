"""Keeps this member's share of the queues: rebalances, takes queues over, gives queues up.

Rules: RocketMQ 4.9 `RebalanceImpl`: at the start, when a broker says that the members changed (40),
when a route changed, and every 20 s; an incomplete one is tried again after 0.1 s, doubling
to 2 s.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Generic, Protocol, TypeVar

from mqclient.consumer.allocation import allocate, strategy_of
from mqclient.consumer.offset_store import MemoryOffsets
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.rebalance_listener import RebalanceListener
from mqclient.consumer.start_offset import start_offset
from mqclient.consumer.subscription import Subscription
from mqclient.consumer.unread_topics import UnreadTopics
from mqclient.engine.client import Client
from mqclient.engine.parallel import in_parallel
from mqclient.engine.threads import in_thread
from mqclient.errors import BrokerError, ClientTimeout, RocketMQError, UnreachableError
from mqclient.settings.consumers import LitePullOptions, PushOptions
from mqcommon.backoff import Backoff
from mqcommon.message import MessageQueue
from mqcommon.names import RETRY_PREFIX
from mqcommon.wire.calls import group_calls
from mqcommon.wire.codes import ResponseCode

__all__ = ["Assignment"]

log = logging.getLogger(__name__)
RETRY_FIRST, RETRY_LAST = 0.1, 2.0
"""Seconds until an incomplete rebalance is tried again: first, then doubling up to the last."""


Held = TypeVar("Held", bound=ProcessQueue)
Pulled = TypeVar("Pulled", bound=ProcessQueue, contravariant=True)


class Pulls(Protocol[Pulled]):
    """Pulls queues."""

    async def run(self, held: Pulled) -> None:
        """Pull one queue until it is dropped."""


class Assignment(Generic[Held]):
    """The queues that this member reads, and a task that pulls each.

    hold: makes the buffer of a queue, from the queue and the offset of the first pull. let_go:
    drops the messages of a queue that no handler has yet.
    """

    def __init__(
        self,
        client: Client,
        settings: PushOptions | LitePullOptions,
        offsets: MemoryOffsets,
        subscriptions: Callable[[], Iterable[Subscription]],
        puller: Pulls[Held],
        hold: Callable[[MessageQueue, int], Held],
        let_go: Callable[[Held], None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._offsets = offsets
        self._subscriptions = subscriptions
        self._puller = puller
        self._hold = hold
        self._let_go = let_go
        self._strategy = strategy_of(settings.allocate)
        self._reads_all = isinstance(settings, PushOptions) and settings.model == "broadcasting"
        self.listener = RebalanceListener(client.namespace)
        self.pauses_new = False
        """Whether queues that come later are paused, until `resume` of all queues."""
        self._held: dict[MessageQueue, Held] = {}
        self._tasks: dict[MessageQueue, asyncio.Task[None]] = {}
        self._wanted = asyncio.Event()
        self._changed = asyncio.Condition()
        self._stopped = False
        self._unread = UnreadTopics(client)
        self._complaints: set[str] = set()
        """Troubles that were logged since the last success."""
        self.trouble: str | None = None
        """The last error; None after the next success."""

    @property
    def held(self) -> dict[MessageQueue, Held]:
        """The process queue of each queue."""
        return self._held

    def find(self, queue: MessageQueue) -> Held | None:
        """The process queue of a queue that this member has not given up yet."""
        return self._held.get(queue)

    def held_of(self, queue: MessageQueue) -> Held:
        """The process queue of a queue of this member; ValueError for other queues."""
        held = self.find(queue)
        if held is None:
            ours = ", ".join(map(str, self.shown)) or "none yet"
            raise ValueError(
                f"{queue} is not assigned to this consumer (its queues: {ours}); assign it, or "
                "wait with wait_assigned() until the group has shared its queues"
            )
        return held

    @property
    def shown(self) -> list[MessageQueue]:
        """The queues of this member, the retry topic's left out."""
        return sorted(queue for queue in self._held if not queue.topic.startswith(RETRY_PREFIX))

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Read a queue from another offset on; drop its held messages and its pull in flight.

        Results of running handlers no longer count. Raises ValueError for a queue of others.
        """
        was_paused = self.held_of(queue).paused
        self._end(queue)
        self._begin(queue, offset)
        self._held[queue].paused = was_paused
        self._pull(queue)

    def rebalance_soon(self) -> None:
        """Rebalance at once."""
        self._wanted.set()

    async def run(self) -> None:
        """Rebalance until cancelled."""
        backoff = Backoff(RETRY_FIRST, RETRY_LAST)
        while True:
            self._wanted.clear()
            complete = await self.rebalance()
            pause = self._settings.rebalance_interval if complete else backoff.pause_s
            backoff.reset() if complete else backoff.grow()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):  # wait_for of 3.11 may swallow a cancellation
                    await self._wanted.wait()

    async def rebalance(self) -> bool:
        """Update this member's share of every topic; False if a part must be tried again."""
        subscriptions = list(self._subscriptions())
        incomplete: list[str] = []

        async def share(subscription: Subscription) -> None:
            if self._stopped or not await self._shared(subscription):
                incomplete.append(subscription.data.topic)

        await in_parallel(share, subscriptions)
        complete = not incomplete
        topics = {subscription.data.topic for subscription in subscriptions}
        self._unread.keep(topics)
        await self._give_up([queue for queue in self._held if queue.topic not in topics])
        if complete:
            self._forget_troubles()
        async with self._changed:
            self._changed.notify_all()
        return complete

    async def wait_balanced(self) -> None:
        """Wait until every subscribed topic has been balanced once."""
        async with self._changed:
            await self._changed.wait_for(
                lambda: all(
                    item.balanced
                    for item in self._subscriptions()
                    if not item.data.topic.startswith(RETRY_PREFIX)
                )
            )

    def retire(self, queues: Iterable[MessageQueue]) -> None:
        """Start no more handlers of these queues; the next rebalance gives the queues up."""
        for queue in queues:
            self._drop(self._held[queue])

    def of_topic(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that this member reads."""
        return [queue for queue in self._held if queue.topic == topic]

    def pull_again(self, topic: str) -> None:
        """Drop the pulls of a topic that are in flight: they ask by a replaced subscription."""
        for queue in [] if self._stopped else self.of_topic(topic):
            if queue in self._tasks:
                self._cancel_pull(queue)
                self._pull(queue)

    async def reset(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Read this member's queues from other offsets, earlier ones too; skip the other queues."""
        mine = {queue: offset for queue, offset in offsets.items() if queue in self._held}
        await self._give_up(list(mine), mine)
        self.rebalance_soon()

    async def keep_locks(self) -> None:
        """Renew the locks of queues until cancelled; only orderly consumption has any."""

    async def tell_end(self, timeout: float) -> None:
        """After `stop`: tell the program that it loses all queues. timeout: seconds, at most."""
        tell = self.listener.lost if self._client.failure is not None else self.listener.revoked
        try:
            async with asyncio.timeout(timeout):
                await tell(list(self._held))
        except TimeoutError:
            log.warning("close() waits no longer for a function of on_rebalance")

    async def finish(self) -> None:
        """After `tell_end`, when no handler runs any more: commit, and give everything up."""
        await self._offsets.commit_surely(list(self._held))
        for held in self._held.values():
            held.dropped = True

    async def stop(self) -> None:
        """Stop pulling and taking queues over; results of running handlers still count."""
        self._stopped = True
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        self._tasks.clear()

    def _complain(self, text: str) -> None:
        log.log(logging.DEBUG if text in self._complaints else logging.WARNING, "%s", text)
        self._complaints.add(text)
        self.trouble = text

    def _forget_troubles(self) -> None:
        self._complaints.clear()
        self.trouble = None

    async def _shared(self, subscription: Subscription) -> bool:
        """Update this member's share of a topic; False if a part must be tried again."""
        try:
            return await self._rebalance_topic(subscription)
        except (RocketMQError, ValueError) as error:
            self._complain(f"rebalancing topic {subscription.data.topic} failed: {error}")
            return False

    async def _rebalance_topic(self, subscription: Subscription) -> bool:
        topic = subscription.data.topic
        route = await self._client.routes.get(topic)
        queues = () if route is None else route.subscribe
        if subscription.initial is None:
            subscription.initial = frozenset(queues)
        why_unread = await self._unread.note(subscription, route)
        if route is None or not queues:
            self.trouble = why_unread or self.trouble
            return False
        mine = await self._share(topic, queues)
        if mine is None:
            return False
        gone = [q for q in self.of_topic(topic) if q not in mine or self._held[q].dropped]
        await self._give_up(gone, lost=[q for q in gone if q.broker_name not in route.brokers])
        new = [queue for queue in mine if queue not in self._held]
        taken = await asyncio.gather(*(self._take_over(queue, subscription) for queue in new))
        await self._begin_pulls(new)
        if gone or any(taken):
            log.info("topic %s: this member reads %d of %d queues", topic, len(mine), len(queues))
        subscription.balanced = subscription.balanced or all(taken)
        return all(taken)

    async def _share(
        self, topic: str, queues: tuple[MessageQueue, ...]
    ) -> list[MessageQueue] | None:
        """This member's queues; None if that is unknown now, and then nothing changes."""
        if self._reads_all:
            return list(queues)
        members = await self._members(queues)
        if members is None:
            return None
        client_id, names = self._client.client_id, self._client.namespace
        chosen = self._settings.allocate
        # The caller's own function or list knows the names without the namespace.
        given = queues if isinstance(chosen, str) else names.unwrap_queues(queues)
        arguments = (self._strategy, client_id, given, members)
        if callable(chosen):  # a function of the user, which may block
            mine = await in_thread(allocate, *arguments)
        else:
            mine = allocate(*arguments)
        if mine is None or isinstance(chosen, str):
            return mine
        return [names.wrap_queue(queue) for queue in mine]

    async def _members(self, queues: tuple[MessageQueue, ...]) -> list[str] | None:
        """Client ids of the group, from the first broker of the topic that answers.

        None if there is no such broker, or if the broker does not know the group yet.
        """
        group = self._settings.group
        assert group is not None  # only groups share
        failure: RocketMQError | None = None
        for queue in {queue.broker_name: queue for queue in queues}.values():
            address = self._client.routes.address(queue)
            if address is None:
                continue
            try:
                return await self._client.invoke(address, group_calls.consumer_ids(group))
            except (UnreachableError, ClientTimeout) as error:
                failure = error
            except BrokerError as error:
                if error.code != ResponseCode.SYSTEM_ERROR:
                    raise
                log.debug("%s: our heartbeat has not arrived yet", error)
                return None
        if failure is not None:
            raise failure
        return None

    async def _take_over(self, queue: MessageQueue, subscription: Subscription) -> bool:
        """Start reading a queue; False when its start offset cannot be found now."""
        self._offsets.forget(queue)
        later = subscription.initial is not None and queue not in subscription.initial
        try:
            offset = await start_offset(
                self._client, self._settings, self._offsets, queue, appeared_later=later
            )
        except (RocketMQError, ValueError) as error:
            self._complain(f"no start offset for {queue}: {error}")
            return False
        if queue not in self._held and not self._stopped:
            self._begin(queue, offset)
        return True

    def _begin(self, queue: MessageQueue, offset: int) -> None:
        """Hold a queue, to be pulled from an offset on."""
        self._held[queue] = held = self._hold(queue, offset)
        held.paused = self.pauses_new
        self._offsets.update(queue, offset, forward_only=False)

    async def _begin_pulls(self, queues: Iterable[MessageQueue]) -> None:
        """Tell the program about queues that were taken over, then pull them."""
        new = [queue for queue in queues if queue in self._held and queue not in self._tasks]
        await self.listener.assigned(new)
        for queue in new:
            if queue in self._held and queue not in self._tasks and not self._stopped:
                self._pull(queue)

    def _pull(self, queue: MessageQueue) -> None:
        work = self._puller.run(self._held[queue])
        self._tasks[queue] = self._client.spawn(work, f"pulling {queue}")

    def _cancel_pull(self, queue: MessageQueue) -> None:
        task = self._tasks.pop(queue, None)
        if task is not None:
            task.cancel()

    def _end(self, queue: MessageQueue) -> Held:
        """Stop pulling a queue; results of its running handlers no longer count."""
        held = self._stop_pulling(queue)
        self._drop(held)
        return held

    def _drop(self, held: Held) -> None:
        self._let_go(held)
        held.dropped = True

    def _stop_pulling(self, queue: MessageQueue) -> Held:
        self._cancel_pull(queue)
        return self._held.pop(queue)

    async def _give_up(
        self,
        queues: list[MessageQueue],
        offsets: Mapping[MessageQueue, int] | None = None,
        *,
        lost: Iterable[MessageQueue] = (),
    ) -> None:
        """Stop reading queues and commit them: results of running handlers no longer count.

        offsets: commit these instead of the consumed offsets. lost: those whose broker is gone.
        """
        await self._revoke(queues, lost)
        for queue in queues:
            if queue in self._held:
                self._end(queue)
            if offsets is not None:
                self._offsets.update(queue, offsets[queue], forward_only=False)
        await self.listener.lost(lost)
        await self._offsets.commit_surely(queues)
        for queue in queues:
            self._offsets.forget(queue)

    async def _revoke(
        self, queues: Iterable[MessageQueue], lost: Iterable[MessageQueue] = ()
    ) -> None:
        """Start no more handlers of queues, and tell the program before they are given up."""
        for queue in queues:
            self._cancel_pull(queue)
            self._let_go(self._held[queue])
        await self.listener.revoked(set(queues) - set(lost))

"""The queues of a lite pull consumer, shared out in its group or assigned, and their commits."""

import asyncio
from collections.abc import Iterable, Mapping

from mqclient.consumer.assignment import Assignment
from mqclient.consumer.lite.buffer import LiteBuffer, LiteQueue
from mqclient.consumer.lite.puller import LitePuller
from mqclient.consumer.offset_store import OFFSET_TIMEOUT, MemoryOffsets
from mqclient.consumer.subscription import Subscription
from mqclient.engine.client import Client
from mqclient.engine.parallel import in_parallel
from mqclient.errors import ClientTimeout, RocketMQError
from mqclient.settings.consumers import LitePullOptions
from mqcommon.message import MessageQueue
from mqcommon.wire.calls import offset_calls

__all__ = ["LiteAssignment"]


class LiteAssignment(Assignment[LiteQueue]):
    """The queues that a lite pull consumer reads."""

    def __init__(
        self,
        client: Client,
        settings: LitePullOptions,
        offsets: MemoryOffsets,
        subscriptions: Mapping[str, Subscription],
        buffer: LiteBuffer,
    ) -> None:
        puller = LitePuller(client, settings, buffer, subscriptions.get)
        super().__init__(
            client, settings, offsets, subscriptions.values, puller, LiteQueue, buffer.drop
        )
        self._by_topic = subscriptions
        self._buffer = buffer
        self._group = settings.group
        self._commits = settings.commit_interval is not None and settings.group is not None
        self._settled: dict[MessageQueue, int] = {}
        """The positions at the last commits, also of those that wrote another offset."""
        self.chosen: frozenset[MessageQueue] | None = None
        """The queues that the caller assigned; None when it subscribes."""

    async def rebalance(self) -> bool:
        """Update the queues; False if a part must be tried again."""
        return await (super().rebalance() if self.chosen is None else self._take_chosen())

    async def _take_chosen(self) -> bool:
        chosen = self.chosen or frozenset()
        gone = [queue for queue, held in self.held.items() if held.dropped or queue not in chosen]
        await self._give_up(sorted(gone))
        outcomes: list[bool] = []

        async def take(subscription: Subscription) -> None:
            topic = subscription.data.topic
            queues = [q for q in chosen if q.topic == topic and q not in self.held]
            outcomes.append(await self._take_queues(subscription, queues))

        await in_parallel(take, self._by_topic.values())
        complete = all(outcomes)
        if complete:
            self._forget_troubles()
        async with self._changed:
            self._changed.notify_all()
        return complete

    async def _take_queues(self, subscription: Subscription, queues: list[MessageQueue]) -> bool:
        """Read chosen queues of one topic; False if a part must be tried again."""
        topic = subscription.data.topic
        try:
            await self._client.routes.get(topic)
        except (RocketMQError, ValueError) as error:
            self._complain(f"no route of topic {topic}: {error}")
            return False
        taken = await asyncio.gather(*(self._take_over(q, subscription) for q in queues))
        await self._begin_pulls(queues)
        return all(taken)

    async def wait_balanced(self) -> None:
        """Wait until every subscribed topic has been balanced once, or every queue is taken."""
        if self.chosen is None:
            await super().wait_balanced()
            return
        async with self._changed:
            await self._changed.wait_for(lambda: self.held.keys() >= (self.chosen or set()))

    async def queue(self, queue: MessageQueue, timeout: float) -> LiteQueue:
        """The buffer of an assigned queue; waits until the queue has its start offset.

        timeout: seconds. Raises ValueError for another's queue, ClientTimeout.
        """
        if queue not in self.held and queue in (self.chosen or ()):
            try:
                async with asyncio.timeout(timeout), self._changed:
                    await self._changed.wait_for(lambda: queue in self.held)
            except TimeoutError:
                why = f": {self.trouble}" if self.trouble else ""
                raise ClientTimeout(
                    f"{queue} is assigned, but where to start is not known after {timeout:g} s{why}"
                ) from None
        return self.held_of(queue)

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Read a queue from another offset on, which the next commit writes."""
        super().move(queue, offset)
        self._settled.pop(queue, None)

    # --- commits

    def positions(self) -> dict[MessageQueue, int]:
        """The positions of all queues."""
        return {queue: held.position for queue, held in self.held.items()}

    async def commit(self, offsets: Mapping[MessageQueue, int]) -> None:
        """Write offsets to the brokers and wait for their answers.

        Raises BrokerError, UnreachableError, ClientTimeout after all were tried.
        """
        for error in (await self._try_commits(offsets)).values():
            raise error

    async def _try_commits(
        self, offsets: Mapping[MessageQueue, int]
    ) -> dict[MessageQueue, BaseException]:
        """Commit all; returns the errors."""
        held = self.positions()  # before any of them moves on
        outcomes = await asyncio.gather(
            *(self._commit_one(q, offset, held.get(q, offset)) for q, offset in offsets.items()),
            return_exceptions=True,
        )
        return {
            queue: outcome
            for queue, outcome in zip(offsets, outcomes, strict=True)
            if isinstance(outcome, BaseException)
        }

    async def _commit_one(self, queue: MessageQueue, offset: int, position: int) -> None:
        assert self._group is not None
        call = offset_calls.update_consumer_offset(self._group, queue, offset)
        await self._client.invoke(self._client.address_of(queue), call, OFFSET_TIMEOUT)
        self._settled[queue] = position

    async def commit_moved(self, queues: Iterable[MessageQueue] | None = None) -> None:
        """With auto-commit: commit the positions that moved since; a failure is logged."""
        if not self._commits:
            return
        moved = {
            queue: self.held[queue].position
            for queue in (self.held if queues is None else queues)
            if self.held[queue].position != self._settled.get(queue)
        }
        text = "the position of %s is not committed yet: %s"
        for queue, error in (await self._try_commits(moved)).items():
            if not isinstance(error, RocketMQError):
                raise error
            self._client.outages.failed(queue.broker_name, text, queue, error)

    # --- hooks of Assignment

    async def _give_up(
        self,
        queues: list[MessageQueue],
        offsets: Mapping[MessageQueue, int] | None = None,
        *,
        lost: Iterable[MessageQueue] = (),
    ) -> None:
        """Stop reading queues, tell the program, then commit them."""
        if not queues:
            return
        await self._revoke(queues, lost)
        await self.commit_moved(queues)
        for queue in queues:
            self._end(queue)
            self._settled.pop(queue, None)
        await self.listener.lost(lost)

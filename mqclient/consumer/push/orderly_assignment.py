"""The queues of an orderly consumer: each is read only while its lock at the broker is ours.

Rules: RocketMQ 4.9 `RebalancePushImpl` and `ConsumeMessageOrderlyService.lockMQPeriodically`. A
queue is locked before its start offset is read. When it is given up, its running handler ends and
its result is committed before the lock goes back, so that the next member repeats nothing. A
queue whose lock another member holds is read again from the committed offset once it is free.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Iterable, Mapping

from mqclient.consumer.assignment import Assignment
from mqclient.consumer.offset_store import MemoryOffsets
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.pull import Puller
from mqclient.consumer.push.orderly import OrderlyService
from mqclient.consumer.push.queue_locks import LOCK_INTERVAL, QueueLocks
from mqclient.consumer.subscription import Subscription
from mqclient.engine.client import Client
from mqclient.settings.consumers import PushOptions
from mqcommon.message import MessageQueue

__all__ = ["OrderlyAssignment"]

log = logging.getLogger(__name__)
LOCK_LIVE = 30.0
"""Seconds after the last renewal for which a lock is relied on."""
FINISH_TIMEOUT = 2.0
"""Seconds that the end waits for a rebalance under way."""
COMMIT_TRIES = 3
"""How often a commit is tried before the next member may read a queue."""
LOCK_RETRY = 1.0
"""Seconds until a renewal that a broker did not answer is tried again."""


class OrderlyAssignment(Assignment[ProcessQueue]):
    """The locked queues of a clustering group."""

    def __init__(
        self,
        client: Client,
        settings: PushOptions,
        offsets: MemoryOffsets,
        subscriptions: Callable[[], Iterable[Subscription]],
        puller: Puller,
        service: OrderlyService,
    ) -> None:
        super().__init__(
            client, settings, offsets, subscriptions, puller, ProcessQueue, service.forget
        )
        self._locks = QueueLocks(client, settings.group)
        self._service = service
        self._leaving: dict[MessageQueue, tuple[ProcessQueue, asyncio.Task[None]]] = {}
        """Queues that are being given up; no member reads them until that is done."""
        self._unrenewed: set[MessageQueue] = set()
        """The leaving queues whose locks are no longer renewed."""
        self._renewing = asyncio.Lock()
        """Held while locks are renewed: a broker might take a renewal after an unlock."""
        self._rebalancing = asyncio.Lock()

    async def rebalance(self) -> bool:
        """Update this member's share of every topic; False if a part must be tried again."""
        async with self._rebalancing:
            return await super().rebalance()

    def find(self, queue: MessageQueue) -> ProcessQueue | None:
        """The process queue of a queue that this member has not given up yet."""
        leaving = self._leaving.get(queue)
        return self._held.get(queue) if leaving is None else leaving[0]

    def move(self, queue: MessageQueue, offset: int) -> None:
        """Read a queue from another offset on, as soon as its running handler has ended."""
        old = self._held.get(queue)
        if old is None:
            raise ValueError(f"{queue} is not assigned to this consumer any more")
        then_handle = self._service.after(old)
        super().move(queue, offset)
        new = self._held[queue]
        new.locked_until, new.last_lock_ms = old.locked_until, old.last_lock_ms
        then_handle(new)

    def retire(self, queues: Iterable[MessageQueue]) -> None:
        """Start no more handlers of these queues, and start giving the queues up."""
        for queue in queues:
            self._leave(self._stop_pulling(queue))

    async def tell_end(self, timeout: float) -> None:
        """After `stop`: let queues go that are being given up, then tell the program that it loses
        the others.

        timeout: seconds for each of both.
        """
        leaving = [task for held, task in self._leaving.values() if self._service.is_idle(held)]
        if leaving:
            await asyncio.wait(leaving, timeout=timeout)
        await super().tell_end(timeout)

    async def keep_locks(self) -> None:
        """Renew the locks of queues until cancelled, those being given up included."""
        pause = LOCK_INTERVAL
        while True:
            await asyncio.sleep(pause)
            asked_at = time.monotonic()
            async with self._renewing:
                queues = (self._held.keys() | self._leaving.keys()) - self._unrenewed
                answer = await self._locks.lock(queues)
            for queue in answer.ours & self._held.keys():
                self._locked(self._held[queue], asked_at)
            lost = answer.others & self._held.keys()
            for queue in lost:
                log.warning("%s: another member of the group has locked it; giving it up", queue)
                self._leave(self._end(queue), is_lost=True)
            if lost:
                self.rebalance_soon()
            pause = LOCK_INTERVAL if answer.complete else LOCK_RETRY

    async def finish(self) -> None:
        """Commit, and release the locks, except for queues whose handlers still run."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_TIMEOUT), self._rebalancing:
                pass  # a queue that was just being taken over is unlocked again
        await super().finish()
        await self._unlock(q for q, held in self._held.items() if self._service.is_idle(held))
        self._locks.forget()

    async def _take_over(self, queue: MessageQueue, subscription: Subscription) -> bool:
        """Lock a queue and start reading it; False when that is not possible now."""
        if queue in self._leaving:
            return False
        asked_at = time.monotonic()
        answer = await self._locks.lock([queue])
        if queue not in answer.ours:
            self.trouble = f"{queue} is not locked yet: another member of the group still has it"
            log.debug("%s", self.trouble)
            return False
        taken = await super()._take_over(queue, subscription)
        held = self._held.get(queue)
        if held is None:
            await self._unlock([queue])
        else:
            self._locked(held, asked_at)
        return taken

    def _locked(self, held: ProcessQueue, asked_at: float) -> None:
        held.locked_until = asked_at + LOCK_LIVE
        held.last_lock_ms = time.time_ns() // 1_000_000
        self._service.go_on(held)

    async def _give_up(
        self,
        queues: list[MessageQueue],
        offsets: Mapping[MessageQueue, int] | None = None,
        *,
        lost: Iterable[MessageQueue] = (),
    ) -> None:
        """Start giving queues up. offsets: commit these instead of the consumed offsets."""
        for queue in queues:
            if queue in lost:
                self._leave(self._end(queue), is_lost=True)
            elif offsets is None:
                self._leave(self._stop_pulling(queue))
            else:
                self._leave(self._end(queue), offsets[queue])

    def _leave(
        self, held: ProcessQueue, offset: int | None = None, *, is_lost: bool = False
    ) -> None:
        if is_lost:
            self._unrenewed.add(held.queue)
        self._service.forget(held)
        work = self._left(held, offset, is_lost)
        self._leaving[held.queue] = held, self._client.spawn(work, f"giving up {held.queue}")

    async def _left(self, held: ProcessQueue, offset: int | None, is_lost: bool) -> None:
        """Let the running handler end, then commit and unlock. is_lost: the lock is not ours."""
        queue = held.queue
        if is_lost:
            await self.listener.lost([queue])
        await self._service.end(held)
        if not is_lost:
            await self.listener.revoked([queue])
        held.dropped = True
        if offset is not None:
            self._offsets.update(queue, offset, forward_only=False)
        if not is_lost:
            for _ in range(COMMIT_TRIES):
                if await self._offsets.commit_surely([queue]):
                    break
            self._unrenewed.add(queue)
            await self._unlock([queue])
        self._offsets.forget(queue)
        self._unrenewed.discard(queue)
        del self._leaving[queue]
        self.rebalance_soon()

    async def _unlock(self, queues: Iterable[MessageQueue]) -> None:
        async with self._renewing:
            pass
        await self._locks.unlock(queues)

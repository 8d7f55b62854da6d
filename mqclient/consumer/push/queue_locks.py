"""Locks of queues at their brokers: only the member that holds a queue's lock consumes it in order.

Rules: RocketMQ 4.9 `RebalanceImpl.lock`, `lockAll` and `unlock`. A broker forgets a lock that is
not renewed for 60 s.
"""

import asyncio
import logging
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from mqclient.engine.client import Client
from mqclient.engine.heartbeat_backup import Sending
from mqclient.errors import RocketMQError, UnreachableError
from mqcommon.message import MessageQueue
from mqcommon.wire.calls import offset_calls

__all__ = ["LOCK_INTERVAL", "Locked", "QueueLocks"]

log = logging.getLogger(__name__)
LOCK_INTERVAL = 20.0
"""Seconds between renewals."""
LOCK_TIMEOUT, UNLOCK_TIMEOUT = 1.0, 5.0
"""Seconds to wait for a broker's answer to a lock, and to an unlock."""


class Locked(NamedTuple):
    """The brokers' answers: the queues that we hold, the queues that others hold, and whether every
    broker answered."""

    ours: set[MessageQueue]
    others: set[MessageQueue]
    complete: bool


class QueueLocks:
    """Asks brokers for locks. group: consumer group."""

    def __init__(self, client: Client, group: str) -> None:
        self._client = client
        self._group = group
        self._ours: frozenset[MessageQueue] = frozenset()
        """Queues that brokers have locked for us, as far as we know."""

    async def lock(self, queues: Iterable[MessageQueue]) -> Locked:
        """Lock queues, or renew their locks. An error of a broker is logged."""
        ours: set[MessageQueue] = set()
        others: set[MessageQueue] = set()
        groups = _by_broker(queues)
        answers = await asyncio.gather(*(self._lock_at(group) for group in groups))
        for asked, got in zip(groups, answers, strict=True):
            if got is not None:
                ours |= got
                others |= set(asked) - got
        self._keep((self._ours | ours) - others)
        return Locked(ours, others, None not in answers)

    async def unlock(self, queues: Iterable[MessageQueue]) -> None:
        """Give locks back and wait for the answers; an error is logged."""
        queues = set(queues)
        self._keep(self._ours - queues)
        await self._client.heartbeat_backup.quiet()  # a broker might take a renewal after it
        await asyncio.gather(*(self._unlock_at(group) for group in _by_broker(queues)))

    def forget(self) -> None:
        """Let the locks that we still have expire."""
        self._keep(frozenset())

    def _keep(self, ours: frozenset[MessageQueue]) -> None:
        """Store the queues locked for us; the backup renews the locks if the loop is late."""
        self._ours = ours

        def again() -> Iterator[Sending]:
            for queues in _by_broker(ours):
                master = self._client.routes.address(queues[0], only_this=True)
                if master is not None:
                    call = offset_calls.lock_queues(self._group, self._client.client_id, queues)
                    yield self._client.sending(master, call)

        self._client.heartbeat_backup.keep(("locks", self._group), LOCK_INTERVAL, again)

    async def _lock_at(self, queues: list[MessageQueue]) -> set[MessageQueue] | None:
        broker = queues[0].broker_name
        call = offset_calls.lock_queues(self._group, self._client.client_id, queues)
        try:
            answer = await self._client.invoke(self._master(queues[0]), call, LOCK_TIMEOUT)
        except RocketMQError as error:
            text = "broker %s locks no queues, so they wait: %s"
            self._client.outages.failed(broker, text, broker, error)
            return None
        return set(answer) & set(queues)

    async def _unlock_at(self, queues: list[MessageQueue]) -> None:
        call = offset_calls.unlock_queues(self._group, self._client.client_id, queues)
        try:
            await self._client.invoke(self._master(queues[0]), call, UNLOCK_TIMEOUT)
        except RocketMQError as error:
            broker = queues[0].broker_name
            log.warning(
                "%d queues of broker %s stay locked for up to 60 s: %s", len(queues), broker, error
            )

    def _master(self, queue: MessageQueue) -> str:
        """The address of the only broker that keeps the locks of a queue."""
        address = self._client.routes.address(queue, only_this=True)
        if address is None:
            raise UnreachableError(f"broker {queue.broker_name!r} has no master")
        return address


def _by_broker(queues: Iterable[MessageQueue]) -> list[list[MessageQueue]]:
    groups: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        groups.setdefault(queue.broker_name, []).append(queue)
    return list(groups.values())

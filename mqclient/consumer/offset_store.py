"""Progress of a group: offsets in memory, committed to the brokers.

Rules: RocketMQ 4.9 `RemoteBrokerOffsetStore`: a commit is one-way every 5 s; the last one, when a
queue is given up or the consumer closes, waits for the broker's answer.
"""

import asyncio
import logging
from collections.abc import Iterable
from typing import Protocol

from mqclient.engine.client import Client
from mqclient.errors import RocketMQError
from mqclient.settings.consumers import LitePullOptions, PushOptions
from mqcommon.message import MessageQueue
from mqcommon.wire.calls import offset_calls

__all__ = ["MemoryOffsets", "RemoteOffsets", "remote_offsets"]

log = logging.getLogger(__name__)
OFFSET_TIMEOUT = 5.0
"""Seconds to wait for a broker's answer about an offset."""


class Followed(Protocol):
    """The held messages of a queue."""

    queue: MessageQueue

    @property
    def first_offset(self) -> int:
        """The next offset to consume."""


class MemoryOffsets:
    """Offsets in memory, without a place to commit them to."""

    def __init__(self) -> None:
        self._table: dict[MessageQueue, int] = {}
        self._behind: set[Followed] = set()

    def follow(self, held: Followed) -> None:
        """Follow the first offset held of a queue.

        It is read on demand, because messages are consumed more often than offsets are read.
        """
        self._behind.add(held)

    def update(self, queue: MessageQueue, offset: int, *, forward_only: bool = True) -> None:
        """Remember the next offset to consume."""
        self._catch_up()
        self._set(queue, offset, forward_only)

    def get(self, queue: MessageQueue) -> int:
        """The remembered offset, 0 when there is none."""
        self._catch_up()
        return self._table.get(queue, 0)

    def of_topic(self, topic: str) -> dict[MessageQueue, int]:
        """The remembered offsets of a topic."""
        self._catch_up()
        return {queue: offset for queue, offset in self._table.items() if queue.topic == topic}

    def forget(self, queue: MessageQueue) -> None:
        """Drop a queue that this member gave up."""
        self._catch_up()
        self._table.pop(queue, None)

    def _catch_up(self) -> None:
        while self._behind:
            held = self._behind.pop()
            self._set(held.queue, held.first_offset, forward_only=True)

    def _set(self, queue: MessageQueue, offset: int, forward_only: bool) -> None:
        if not forward_only or offset > self._table.get(queue, -1):
            self._table[queue] = offset

    async def load(self) -> None:
        """Prepare to answer `fetch`, at the consumer's start."""

    async def fetch(self, queue: MessageQueue) -> int | None:
        """The committed offset of a queue, None when there is none."""
        return None

    async def commit(self, queues: Iterable[MessageQueue]) -> None:
        """Commit without waiting for an answer."""

    async def commit_surely(self, queues: Iterable[MessageQueue]) -> bool:
        """Commit and wait for the answers. A failure is logged; False if there was one."""
        return True


class RemoteOffsets(MemoryOffsets):
    """Offsets of a clustering group, kept by the brokers.

    zero_if_new: see `calls.query_consumer_offset`.
    """

    def __init__(self, client: Client, group: str, *, zero_if_new: bool | None = None) -> None:
        super().__init__()
        self._zero_if_new = zero_if_new
        self._client = client
        self._group = group

    async def fetch(self, queue: MessageQueue) -> int | None:
        """Ask the broker; raises BrokerError, UnreachableError, ClientTimeout."""
        call = offset_calls.query_consumer_offset(self._group, queue, zero_if_new=self._zero_if_new)
        return await self._client.invoke(self._client.address_of(queue), call, OFFSET_TIMEOUT)

    async def commit(self, queues: Iterable[MessageQueue]) -> None:
        """Send the offsets of these queues one-way; a failure is logged and retried next time."""
        self._catch_up()
        for queue in queues:
            offset = self._table.get(queue)
            if offset is not None:
                call = offset_calls.update_consumer_offset(self._group, queue, offset)
                try:
                    address = self._client.address_of(queue)
                    await self._client.oneway(address, call.request, OFFSET_TIMEOUT)
                except RocketMQError as error:
                    self._client.outages.failed(
                        queue.broker_name,
                        "offset %d of %s is not committed yet: %s",
                        *(offset, queue, error),
                    )

    async def commit_surely(self, queues: Iterable[MessageQueue]) -> bool:
        """Send the offsets of these queues and wait until the brokers have them.

        A failure is logged; False if there was one.
        """
        self._catch_up()
        return all(await asyncio.gather(*(self._commit_one(queue) for queue in queues)))

    async def _commit_one(self, queue: MessageQueue) -> bool:
        offset = self._table.get(queue)
        if offset is None:
            return True
        call = offset_calls.update_consumer_offset(self._group, queue, offset)
        try:
            await self._client.invoke(self._client.address_of(queue), call, OFFSET_TIMEOUT)
            return True
        except RocketMQError as error:
            log.warning(
                "offset %d of %s could not be committed, its last messages will be delivered "
                "again: %s",
                offset,
                queue,
                error,
            )
            return False


def remote_offsets(client: Client, options: PushOptions | LitePullOptions) -> RemoteOffsets:
    """The offsets of a group. Only with "earliest" a broker may answer 0 for none; else the start
    is the broker's end or a time, and a broker that can say so says that there is none."""
    assert options.group is not None
    zero_if_new = None if options.consume_from == "earliest" else False
    return RemoteOffsets(client, options.group, zero_if_new=zero_if_new)

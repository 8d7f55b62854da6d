"""Asks brokers for programs that block: queues, what they hold, offsets at a time, addresses.

Routes, connections, accounts, TLS and addresses are those of the client's engine.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from mqclient.engine import Client, TransportLike
from mqclient.errors import ClientTimeout, RocketMQError, UnreachableError
from mqclient.retries import with_retries
from mqclient.routes import TopicRoute
from mqclient.spark.options import Options
from mqclient.wire import Frame, calls
from mqclient.wire.codes import PullSysFlag, RequestCode, ResponseCode
from mqclient.wire.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from mqstore.message import MessageQueue, decode_reply

__all__ = ["Cluster", "DataLossError", "Extent"]

T = TypeVar("T")

PULL_COUNT = 32
"""Messages of one pull: what a broker gives at most by default."""
FIRST_SLAVE_ID = 1
CLOSE_TIMEOUT_S = 1.0
_PULL_CODES = (
    ResponseCode.SUCCESS,
    ResponseCode.PULL_NOT_FOUND,
    ResponseCode.PULL_RETRY_IMMEDIATELY,
    ResponseCode.PULL_OFFSET_MOVED,
)


class DataLossError(RocketMQError):
    """Offsets that should be read are gone from the broker, or their messages are damaged."""


@dataclass(frozen=True, slots=True)
class Extent:
    """What a queue holds: offsets from `first` on, before `end`."""

    first: int
    end: int


class Cluster:
    """Asks brokers, one call at a time from the caller's view.

    Joins no group, sends no heartbeat, commits nothing. Belongs to one thread and one process;
    close it, or use it as a context manager. Requests that fail for a passing reason are
    tried again; what remains is raised as mqclient's errors.
    """

    def __init__(self, options: Options, transport: TransportLike | None = None) -> None:
        self._options = options
        self._client = Client(options.client_settings(), transport)
        self._runner = asyncio.Runner()
        self._is_open = True
        try:
            self._runner.run(self._client.start())
        except BaseException:
            self._runner.close()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; twice is fine."""
        if self._is_open:
            self._is_open = False
            self._runner.run(self._client.close(CLOSE_TIMEOUT_S))
            self._runner.close()

    def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic, in order; NoRouteError when there is none."""
        route = self._runner.run(with_retries(lambda: self._route(topic)))
        wanted = self._options.queues
        return sorted(q for q in route.subscribe if wanted is None or q.queue_id in wanted)

    def extents(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Extent | None]:
        """What each queue holds now; None where its broker cannot be reached."""
        return self._runner.run(self._each(queues, self._extent))

    def offsets_at(
        self, extents: Mapping[MessageQueue, Extent], timestamp_ms: int
    ) -> dict[MessageQueue, int | None]:
        """The first offset of each queue stored at or after a time, its end when there is none.

        None where the broker of a queue is away.
        """

        async def search(queue: MessageQueue) -> int:
            return await self._first_at(queue, extents[queue], timestamp_ms)

        return self._runner.run(self._each(extents, search))

    async def _first_at(self, queue: MessageQueue, extent: Extent, timestamp_ms: int) -> int:
        """Search for the millisecond before, then walk on by the store times of the messages.

        RocketMQ's search gives any one of several messages of the same time, and the nearest
        message when no time is equal; the search for the millisecond before is never too late.
        """
        before_ms = max(timestamp_ms - 1, 0)
        near = await self._ask(queue, lambda: calls.search_offset(queue, before_ms))
        offset = max(near, extent.first)
        while offset < extent.end:
            reply = await self._pull(queue, offset)
            if reply.code == ResponseCode.SUCCESS:
                for message in decode_reply(reply.body)[0]:
                    if message.store_timestamp_ms >= timestamp_ms:
                        return message.queue_offset
            following = PullMessageResponseHeader.from_fields(reply.fields).next_begin_offset
            if following <= offset:
                return offset
            offset = following
        return extent.end

    def addresses(self, queue: MessageQueue) -> tuple[str, str | None]:
        """The advertised addresses of a queue's broker: of the master, and of a slave.

        Without a master in the route, a slave is in its place.
        """

        async def look() -> str:
            await self._route(queue.topic)
            return self._client.address_of(queue)

        master = self._runner.run(with_retries(look))
        slave = self._client.routes.address(queue, FIRST_SLAVE_ID)
        return master, slave if slave != master else None

    def explain(self, address: str, error: Exception) -> Exception:
        """The error for a failure of a connection to a broker's advertised address."""
        return self._client.explain(address, error)

    async def _pull(self, queue: MessageQueue, offset: int) -> Frame:
        header = PullMessageRequestHeader(
            consumer_group=self._options.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=PULL_COUNT,
            sys_flag=int(PullSysFlag.SUBSCRIPTION),
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription="*",
            sub_version=0,
            expression_type="TAG",
            broker_name=queue.broker_name,
        )

        def call() -> calls.Call[Frame]:
            request = Frame(int(RequestCode.PULL_MESSAGE), header.to_fields())
            return calls.Call(request, lambda reply: reply, frozenset(map(int, _PULL_CODES)))

        return await self._ask(queue, call)

    async def _extent(self, queue: MessageQueue) -> Extent:
        first = await self._ask(queue, lambda: calls.min_offset(queue))
        end = await self._ask(queue, lambda: calls.max_offset(queue))
        return Extent(first, end)

    async def _each(
        self, queues: Iterable[MessageQueue], ask: Callable[[MessageQueue], Awaitable[T]]
    ) -> dict[MessageQueue, T | None]:
        async def one(queue: MessageQueue) -> T | None:
            try:
                return await ask(queue)
            except (UnreachableError, ClientTimeout):
                return None

        asked = list(queues)
        return dict(zip(asked, await asyncio.gather(*map(one, asked)), strict=True))

    async def _ask(self, queue: MessageQueue, make: Callable[[], calls.Call[T]]) -> T:
        """Call the broker of a queue, the master if it is known, and retry."""

        async def once() -> T:
            await self._route(queue.topic)
            return await self._client.invoke(self._client.address_of(queue), make())

        return await with_retries(once)

    async def _route(self, topic: str) -> TopicRoute:
        route = await self._client.route(topic)
        if route is None:
            raise await self._client.routes.no_route(topic)
        return route

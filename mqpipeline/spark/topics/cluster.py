"""Asks brokers from blocking programs: queues, their extents, offsets at a time, addresses.

The client's engine provides routes, connections, accounts, TLS and addresses.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from mqclient.engine.client import Client
from mqclient.engine.first_at import PULL_COUNT, first_at
from mqclient.engine.query_retry import with_retries
from mqclient.engine.routes import TopicRoute
from mqclient.engine.transport_like import TransportLike
from mqclient.errors import BrokerError, ClientTimeout, RocketMQError, UnreachableError
from mqcommon import names
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame
from mqcommon.wire.bodies.heartbeat import SQL92, CheckClientRequestBody, SubscriptionData
from mqcommon.wire.bodies.route import ClusterInfo
from mqcommon.wire.calls import group_calls, message_calls, namesrv_calls, offset_calls, topic_calls
from mqcommon.wire.calls.call import Call
from mqcommon.wire.codes import ResponseCode
from mqcommon.wire.headers.admin import CreateTopicRequestHeader
from mqcommon.wire.headers.pull import PullMessageResponseHeader
from mqpipeline.spark.topics.options import Options

__all__ = ["Cluster", "DataLossError", "Extent"]

T = TypeVar("T")

FIRST_SLAVE_ID = 1
CLOSE_TIMEOUT_S = 1.0


class DataLossError(RocketMQError):
    """Offsets that should be read are gone from the broker, or their messages are damaged."""


@dataclass(frozen=True, slots=True)
class Extent:
    """The offsets of a queue's messages: from `first` on, before `end`."""

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
        self._client = Client(options.client_settings(transport))
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
        if not route.subscribe:
            raise self._client.routes.not_readable(topic)
        wanted = self._options.queues
        return sorted(q for q in route.subscribe if wanted is None or q.queue_id in wanted)

    def extents(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Extent | None]:
        """The present extent of each queue; None if its broker cannot be reached."""
        return self._runner.run(self._extents(queues))

    def offsets_at(
        self, extents: Mapping[MessageQueue, Extent], timestamp_ms: int
    ) -> dict[MessageQueue, int | None]:
        """Offset of each queue's first message stored at or after a time; without one, its end.

        None if the broker of a queue cannot be reached.
        """

        async def search(queue: MessageQueue) -> int:
            ask = partial(self._ask, queue)
            return await first_at(ask, queue, self._options.group, timestamp_ms)

        return self._runner.run(self._each(extents, search))

    def sample(self, queue: MessageQueue, first: int) -> tuple[int, int]:
        """Bytes of the records that one pull from an offset on gives, and offsets it covers."""
        reply = self._runner.run(self._pull(queue, first))
        following = PullMessageResponseHeader.from_fields(reply.fields).next_begin_offset
        has_records = reply.code == ResponseCode.SUCCESS
        return len(reply.body) if has_records else 0, max(following - first, 0)

    def addresses(self, queue: MessageQueue) -> tuple[str | None, str | None]:
        """The advertised addresses of a queue's broker: of the master, and of a slave.

        One of them may be None. Raises UnreachableError when the route has neither.
        """

        async def look() -> None:
            await self._route(queue.topic)
            self._client.address_of(queue)

        self._runner.run(with_retries(look))
        routes = self._client.routes
        master = routes.address(queue, only_this=True)
        slave = routes.address(queue, FIRST_SLAVE_ID)
        return master, slave if slave != master else None

    def explain(self, address: str, error: Exception) -> Exception:
        """The error for a failure of a connection to a broker's advertised address."""
        return self._client.explain(address, error)

    async def _pull(self, queue: MessageQueue, offset: int) -> Frame:
        def call() -> Call[Frame]:
            return message_calls.pull_at_once(queue, self._options.group, offset, PULL_COUNT)

        return await self._ask(queue, call, self._options.retry_timeout)

    async def _extents(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Extent | None]:
        """Asks once for each topic of a broker, and for each queue that the answer lacks."""
        asked = list(queues)
        one_of_each = {(queue.broker_name, queue.topic): queue for queue in asked}
        tables = await self._each(one_of_each.values(), self._stats)
        table_of = {source: tables[queue] for source, queue in one_of_each.items()}
        found: dict[MessageQueue, Extent | None] = {}
        missing = []
        for queue in asked:
            table = table_of[queue.broker_name, queue.topic]
            if table is not None and queue not in table:
                missing.append(queue)
            found[queue] = None if table is None else table.get(queue)
        return found | await self._each(missing, self._extent)

    async def _stats(self, queue: MessageQueue) -> dict[MessageQueue, Extent]:
        """The extents of this topic's queues on this broker; empty if it does not report them."""
        try:
            stats = await self._ask(queue, lambda: topic_calls.topic_stats(queue.topic))
        except BrokerError:
            return {}
        return {
            queue: Extent(offsets.min_offset, offsets.max_offset)
            for queue, offsets in stats.offset_table.items()
        }

    async def _extent(self, queue: MessageQueue) -> Extent:
        first = await self._ask(queue, lambda: offset_calls.min_offset(queue))
        end = await self._ask(queue, lambda: offset_calls.max_offset(queue))
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

    async def _ask(
        self, queue: MessageQueue, make: Callable[[], Call[T]], within_s: float = 0.0
    ) -> T:
        """Call the broker of a queue, the master if it is known, and retry."""

        async def once() -> T:
            await self._route(queue.topic)
            return await self._client.invoke(self._client.address_of(queue), make())

        return await with_retries(once, within_s)

    async def _route(self, topic: str) -> TopicRoute:
        route = await self._client.route(topic)
        if route is None:
            raise await self._client.routes.no_route(topic)
        return route

    # --- other calls of a driver

    def topic_names(self) -> list[str]:
        """The topics that the NameServer knows, in order, without RocketMQ's own.

        Topics of retries and dead letters are among them.
        """

        async def ask() -> tuple[list[str], ClusterInfo]:
            topics = await self._client.invoke_namesrv(namesrv_calls.topic_list())
            return topics.topic_list, await self._client.invoke_namesrv(
                namesrv_calls.cluster_info()
            )

        listed, info = self._runner.run(with_retries(ask))
        own = {*info.broker_addr_table, *info.cluster_addr_table, *names.SYSTEM_TOPICS}
        own |= {f"{cluster}{names.REPLY_SUFFIX}" for cluster in info.cluster_addr_table}
        reserved = (names.SYSTEM_PREFIX, names.INNER_PREFIX)
        return sorted(name for name in listed if name not in own and not name.startswith(reserved))

    def has_brokers(self) -> bool:
        """Whether a broker is registered at the NameServer."""

        async def ask() -> bool:
            info = await self._client.invoke_namesrv(namesrv_calls.cluster_info())
            return bool(info.broker_addr_table)

        return self._runner.run(with_retries(ask))

    def has_master(self, queue: MessageQueue) -> bool:
        """Whether the last fetched route names a master of the queue's broker."""
        return self._client.routes.address(queue, only_this=True) is not None

    def committed(
        self, group: str, queues: Iterable[MessageQueue]
    ) -> dict[MessageQueue, int | None]:
        """The offset that a group committed in each queue; None where there is none."""

        async def ask(queue: MessageQueue) -> int | None:
            return await self._ask(queue, lambda: offset_calls.query_consumer_offset(group, queue))

        async def ask_all() -> dict[MessageQueue, int | None]:
            asked = list(queues)
            return dict(zip(asked, await asyncio.gather(*map(ask, asked)), strict=True))

        return self._runner.run(ask_all())

    def commit(self, group: str, offsets: Mapping[MessageQueue, int]) -> list[MessageQueue]:
        """Commit a group's offsets; returns the queues whose broker is away."""

        async def tell(queue: MessageQueue) -> bool:
            at = offsets[queue]
            await self._ask(queue, lambda: offset_calls.update_consumer_offset(group, queue, at))
            return True

        done = self._runner.run(self._each(offsets, tell))
        return [queue for queue, is_done in done.items() if not is_done]

    def members(self, group: str, queues: Iterable[MessageQueue]) -> list[str]:
        """The client ids of a group's live consumers at the brokers of these queues.

        A broker that is away has none.
        """

        async def ask(queue: MessageQueue) -> list[str]:
            try:
                found = await self._ask(queue, lambda: group_calls.consumer_connection(group))
            except BrokerError as error:
                if error.code == ResponseCode.CONSUMER_NOT_ONLINE:
                    return []
                raise
            return [member.client_id for member in found.connection_set]

        answers = self._runner.run(self._each(_one_of_each_broker(queues), ask))
        return sorted({member for members in answers.values() for member in members or ()})

    def make_retry_topic(self, group: str, queues: Iterable[MessageQueue]) -> None:
        """Make a group's retry topic, as a broker does when the group's first consumer appears.

        Tools that show a group's lag find its brokers by this topic.
        """
        topic = names.retry_topic(group)
        header = CreateTopicRequestHeader(
            topic=topic,
            default_topic=names.AUTO_CREATE_TOPIC,
            read_queue_nums=1,
            write_queue_nums=1,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )

        async def make() -> None:
            route = await self._client.route(topic)
            known = set() if route is None else {queue.broker_name for queue in route.subscribe}
            for queue in _one_of_each_broker(queues):
                if queue.broker_name not in known:
                    await self._ask(queue, lambda: topic_calls.create_topic(header))

        self._runner.run(make())

    def check_filter(self, queue: MessageQueue, expression: str) -> None:
        """Let a queue's broker check an SQL92 expression; BrokerError if it refuses."""
        data = SubscriptionData(
            topic=queue.topic, sub_string=expression, sub_version=0, expression_type=SQL92
        )
        body = CheckClientRequestBody(self._client.client_id, self._options.group, data)
        self._runner.run(self._ask(queue, lambda: group_calls.check_client_config(body)))


def _one_of_each_broker(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    return list({queue.broker_name: queue for queue in queues}.values())

"""A reader of brokers for programs that block: routes, extents and pulls, nothing committed."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from mqclient.engine import TransportLike
from mqclient.errors import (
    BrokerError,
    ClientTimeout,
    NoRouteError,
    RocketMQError,
    UnreachableError,
)
from mqclient.spark.options import Options
from mqclient.transport import Transport
from mqclient.wire import Frame, calls
from mqclient.wire.bodies.route import TopicRouteData
from mqclient.wire.codes import PullSysFlag, RequestCode, ResponseCode
from mqclient.wire.headers.pull import PullMessageRequestHeader, PullMessageResponseHeader
from mqstore.message import MessageQueue, damaged_records, decode_reply

__all__ = ["Cluster", "DataLossError", "Extent"]

T = TypeVar("T")
_log = logging.getLogger(__name__)

PULL_COUNT = 32
"""Messages of one pull: what a broker gives at most by default."""
PULLS_IN_FLIGHT = 16
"""Pulls of one queue that are under way at a time."""
ATTEMPTS = 5
"""Tries of a request that fails for a passing reason."""
_PASSING_CODES = (ResponseCode.SYSTEM_BUSY, ResponseCode.SERVICE_NOT_AVAILABLE)
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
    """Asks NameServers and brokers, one call at a time from the caller's view.

    Joins no group, sends no heartbeat, commits nothing. Belongs to one thread and one process;
    close it, or use it as a context manager. Requests that fail for a passing reason are
    tried again; what remains is raised as mqclient's errors.
    """

    def __init__(self, options: Options, transport: TransportLike | None = None) -> None:
        self._options = options
        self._runner = asyncio.Runner()
        tls = options.tls.settings() if options.tls else None
        self._transport = transport or Transport(**options.account, tls=tls)
        self._routes: dict[str, TopicRouteData] = {}
        self._left_out: list[tuple[int, int, str]] = []

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; twice is fine."""
        self._runner.run(self._transport.aclose())
        self._runner.close()

    def queues(self, topic: str) -> list[MessageQueue]:
        """The readable queues of a topic, in order; NoRouteError when there is none."""
        route = self._runner.run(self._route(topic))
        return sorted(
            MessageQueue(topic, data.broker_name, queue_id)
            for data in route.queue_datas
            if data.readable
            for queue_id in range(data.read_queue_nums)
            if self._options.queues is None or queue_id in self._options.queues
        )

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
            reply = await self._pull(queue, offset, PULL_COUNT, "*")
            if reply.code == ResponseCode.SUCCESS:
                for message in decode_reply(reply.body)[0]:
                    if message.store_timestamp_ms >= timestamp_ms:
                        return message.queue_offset
            following = PullMessageResponseHeader.from_fields(reply.fields).next_begin_offset
            if following <= offset:
                return offset
            offset = following
        return extent.end

    def read(self, queue: MessageQueue, first: int, end: int) -> Iterator[bytes]:
        """Bodies of pulls (whole records) that cover [first, end) of a queue, in order.

        Records before `first` or from `end` on may be among them; damaged ones are not. Raises
        DataLossError when some are gone or damaged and the options say that this is an error;
        else one warning says how many were left out.
        """
        self._left_out = []
        try:
            yield from self._read(queue, first, end)
        finally:
            if self._left_out:
                offset, _, reason = self._left_out[0]
                count = sum(count for _, count, _ in self._left_out)
                _log.warning(
                    "%s: %d messages were left out, first at offset %d: %s",
                    queue, count, offset, reason,
                )  # fmt: skip

    def _read(self, queue: MessageQueue, first: int, end: int) -> Iterator[bytes]:
        if self._options.tag is not None:
            yield from self._matches(queue, first, end)
            return
        pending: deque[asyncio.Task[list[bytes]]] = deque()
        starts = iter(range(first, end, PULL_COUNT))
        try:
            while True:
                pending.extend(self._runner.run(self._fill(queue, starts, end, pending)))
                if not pending:
                    return
                yield from self._runner.run(_result(pending.popleft()))
        finally:
            for task in pending:
                task.cancel()

    def _matches(self, queue: MessageQueue, first: int, end: int) -> Iterator[bytes]:
        """Pull one after another: how many offsets a filtered pull covers, only its reply says."""
        while first < end:
            bodies, first = self._runner.run(self._step(queue, first, end))
            yield from bodies

    async def _fill(
        self,
        queue: MessageQueue,
        starts: Iterator[int],
        end: int,
        pending: deque[asyncio.Task[list[bytes]]],
    ) -> list[asyncio.Task[list[bytes]]]:
        """Start pulls until enough are under way."""
        wanted = PULLS_IN_FLIGHT - len(pending)
        return [
            asyncio.create_task(self._block(queue, start, min(start + PULL_COUNT, end)))
            for _, start in zip(range(wanted), starts, strict=False)
        ]

    async def _block(self, queue: MessageQueue, first: int, end: int) -> list[bytes]:
        """Pull until [first, end) is covered; a broker may give less than asked for."""
        bodies = []
        while first < end:
            more, first = await self._step(queue, first, end)
            bodies += more
        return bodies

    async def _step(
        self, queue: MessageQueue, first: int, end: int, most: int = PULL_COUNT
    ) -> tuple[list[bytes], int]:
        """One pull: what it gives, and where the next one begins; `end` when none does.

        What a reply with a damaged record covers is pulled once more, message by message: the
        network or the broker's memory may have been at fault, and no neighbour is lost.
        """
        count = min(most, end - first)
        reply = await self._pull(queue, first, count, self._options.tag or "*")
        following = PullMessageResponseHeader.from_fields(reply.fields).next_begin_offset
        if reply.code in (ResponseCode.PULL_OFFSET_MOVED, ResponseCode.PULL_NOT_FOUND):
            self._lost(queue, first, following)
            return [], following if following > first else end
        following = following if following > first else end
        body = reply.body if reply.code == ResponseCode.SUCCESS else b""
        damaged = damaged_records(body)
        if damaged and most > 1:
            return await self._one_by_one(queue, first, following), following
        if damaged:
            self._leave_out(queue, first, 1, damaged[0][2])
            return [], following
        missing = following - first - _count(body)
        if missing > 0 and self._options.tag is None:
            self._leave_out(queue, first, missing, f"no message at {missing} offsets from it on")
        return [body], following

    async def _one_by_one(self, queue: MessageQueue, first: int, end: int) -> list[bytes]:
        bodies = []
        while first < end:
            more, first = await self._step(queue, first, end, 1)
            bodies += more
        return bodies

    def _leave_out(self, queue: MessageQueue, offset: int, count: int, reason: str) -> None:
        """Damaged messages; a broker of ours leaves them out itself."""
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{queue}: the message at offset {offset} is damaged or lost: {reason}; set "
                f"failOnDataLoss to false to read what is left"
            )
        self._left_out.append((offset, count, reason))

    def _lost(self, queue: MessageQueue, first: int, following: int) -> None:
        if self._options.fail_on_data_loss:
            raise DataLossError(
                f"{queue}: offset {first} is gone, the broker goes on at {following}; set "
                f"failOnDataLoss to false to read what is left"
            )

    async def _pull(self, queue: MessageQueue, offset: int, count: int, tags: str) -> Frame:
        header = PullMessageRequestHeader(
            consumer_group=self._options.group,
            topic=queue.topic,
            queue_id=queue.queue_id,
            queue_offset=offset,
            max_msg_nums=count,
            sys_flag=int(PullSysFlag.SUBSCRIPTION),
            commit_offset=0,
            suspend_timeout_millis=0,
            subscription=tags,
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
        """Call the broker of a queue; tries again after a passing failure."""

        async def once() -> T:
            address = await self._address(queue)
            call = make()
            reply = await self._transport.call(address, call.request, self._options.timeout)
            return call.result(reply, address)

        return await _with_retries(once)

    async def _address(self, queue: MessageQueue) -> str:
        route = await self._route(queue.topic)
        for data in route.broker_datas:
            if data.broker_name == queue.broker_name and data.broker_addrs:
                address = data.broker_addrs[min(data.broker_addrs)]  # the master is 0
                return self._options.address_map.get(address, address)
        raise UnreachableError(f"no address of broker {queue.broker_name} is known")

    async def _route(self, topic: str) -> TopicRouteData:
        if topic not in self._routes:
            self._routes[topic] = await _with_retries(lambda: self._find_route(topic))
        return self._routes[topic]

    async def _find_route(self, topic: str) -> TopicRouteData:
        """Ask each NameServer until one knows the topic."""
        servers = [s.strip() for s in self._options.nameserver.split(";") if s.strip()]
        failure: RocketMQError | None = None
        for server in servers:
            call = calls.route(topic)
            try:
                reply = await self._transport.call(server, call.request, self._options.timeout)
                route = call.result(reply, server)
            except (UnreachableError, ClientTimeout) as error:
                failure = error
                continue
            if route is not None:
                return route
        raise failure or NoRouteError(
            f"no route for topic {topic!r} at NameServer {self._options.nameserver}: it does not "
            f"exist yet; see mqadmin topicList -n {servers[0]}",
            topic,
            self._options.nameserver,
        )


def _count(records: bytes) -> int:
    """How many there are; each begins with its size."""
    count = at = 0
    while at < len(records):
        at += int.from_bytes(records[at : at + 4], "big")
        count += 1
    return count


async def _result(task: asyncio.Task[T]) -> T:
    return await task


async def _with_retries(attempt: Callable[[], Awaitable[T]]) -> T:
    """Run until it works, fails for good, or has failed ATTEMPTS times."""
    for count in range(1, ATTEMPTS + 1):
        try:
            return await attempt()
        except (UnreachableError, ClientTimeout) as error:
            failure: RocketMQError = error
        except BrokerError as error:
            if error.code not in _PASSING_CODES:
                raise
            failure = error
        if count < ATTEMPTS:
            await asyncio.sleep(0.05 * 2**count)
    raise failure

"""A client of many topics asks several questions at a time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import time

from mqclient import ClientId, Connection, Message
from mqclient import aio as mqaio
from mqclient.engine.parallel import AT_ONCE
from tests.client.cluster import NAMESRV, Cluster
from tests.waiting import until_async

TOPICS = 100


async def test_routes_of_many_topics_are_asked_in_parallel_and_bounded() -> None:
    cluster = Cluster(**{f"T{number}": 1 for number in range(TOPICS)})
    answer, waiting, most = cluster.transport.scripts[105], 0, 0

    async def slow(address, request):
        nonlocal waiting, most
        waiting += 1
        most = max(most, waiting)
        await asyncio.sleep(0.02)
        waiting -= 1
        return answer(address, request)

    cluster.transport.scripts[105] = slow
    consumer = mqaio.PushConsumer("g", NAMESRV, transport=cluster.transport)
    for number in range(TOPICS):
        consumer.subscribe(f"T{number}", "*", print)
    async with consumer:
        assert AT_ONCE // 2 < most <= AT_ONCE
        assert len(await consumer.wait_assigned()) == TOPICS
        assert most <= AT_ONCE


class Delays:
    """TCP proxies that pass bytes on after `delay_s`; `address` maps a server to its proxy."""

    def __init__(self, delay_s: float) -> None:
        self._delay_s = delay_s
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def address(self, target: str) -> str:
        host, _, port = target.rpartition(":")

        async def serve(reader, writer):
            far_reader, far_writer = await asyncio.open_connection(host, int(port))
            for source, sink in ((reader, far_writer), (far_reader, writer)):
                task = asyncio.create_task(self._pass_on(source, sink))
                self._tasks.add(task)

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self._servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    async def _pass_on(self, source, sink) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(ConnectionError):
            while data := await source.read(1 << 16):
                loop.call_later(self._delay_s, sink.write, data)
        loop.call_later(self._delay_s, sink.close)

    async def __aenter__(self):
        return self

    async def __aexit__(self, *_):
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


@contextlib.asynccontextmanager
async def far_away(mq, round_trip_s: float):
    """A NameServer's address, and options of a client, through proxies with a round trip time."""
    async with Delays(round_trip_s / 2) as delays:
        namesrv = await delays.address(mq.namesrv)
        yield namesrv, {mq.broker_address: await delays.address(mq.broker_address)}


ROUND_TRIP_S = 0.03


async def test_200_topics_far_away_are_read_faster_than_one_by_one(mq) -> None:
    topics = [mq.topic(queues=1) for _ in range(200)]
    seen: set[str] = set()

    async def handle(messages, _context):
        seen.update(message.topic for message in messages)

    async with mqaio.Producer(mq.namesrv) as producer:
        await asyncio.gather(*(producer.send(Message(topic, b"x")) for topic in topics))
    async with far_away(mq, ROUND_TRIP_S) as (namesrv, mapped):
        consumer = mqaio.PushConsumer(
            "far",
            namesrv,
            connection=Connection(address_map=mapped),
            consume_from="earliest",
            client_id=ClientId(ip="10.0.0.1"),
        )
        for topic in topics:
            consumer.subscribe(topic, "*", handle)
        started = time.monotonic()
        async with consumer:
            begun = time.monotonic() - started
            await until_async(lambda: len(seen) == 200)
            read = time.monotonic() - started
    assert begun < read < len(topics) * ROUND_TRIP_S, "topic by topic, it could not be faster"


async def test_the_start_needs_few_round_trips_in_a_row() -> None:
    cluster = Cluster(**{f"T{number}": 1 for number in range(TOPICS)})
    trips = [Trips(cluster, code) for code in (105, 38, 14)]
    consumer = mqaio.PushConsumer("g", NAMESRV, transport=cluster.transport)
    for number in range(TOPICS):
        _subscribe(consumer, f"T{number}")
    async with consumer:
        assert len(await consumer.wait_assigned()) == TOPICS
    assert max(trip.in_a_row for trip in trips) <= TOPICS // 5, [t.in_a_row for t in trips]


async def test_a_running_consumer_asks_for_new_topics_in_parallel() -> None:
    for kind in (mqaio.PushConsumer, mqaio.LitePullConsumer):
        cluster = Cluster(**{f"T{number}": 1 for number in range(TOPICS)})
        consumer = kind("g", NAMESRV, transport=cluster.transport)
        subscribe = functools.partial(_subscribe, consumer)
        subscribe("T0")
        async with consumer:
            await consumer.wait_assigned()
            trips = Trips(cluster, 105)
            for number in range(TOPICS):
                subscribe(f"T{number}")
            assert len(await consumer.wait_assigned()) == TOPICS
        assert trips.in_a_row <= 2 * (TOPICS // AT_ONCE + 1), kind


def _subscribe(consumer, topic: str) -> None:
    if isinstance(consumer, mqaio.PushConsumer):
        consumer.subscribe(topic, "*", print)
    else:
        consumer.subscribe(topic)


class Trips:
    """Counts successive round trips of one code."""

    def __init__(self, cluster: Cluster, code: int) -> None:
        self.in_a_row = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._answer = cluster.transport.scripts[code]
        cluster.transport.scripts[code] = self._slow

    async def _slow(self, address, request):
        loop = asyncio.get_running_loop()
        future = loop.create_future()
        if not self._waiting:
            loop.call_later(0.01, self._answer_all)
        self._waiting.append(future)
        await future
        return self._answer(address, request)

    def _answer_all(self) -> None:
        self.in_a_row += 1
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            future.set_result(None)

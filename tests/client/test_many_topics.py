"""A client of many topics asks several questions at a time."""

from __future__ import annotations

import asyncio

from mqclient import aio as mqaio
from mqclient.parallel import AT_ONCE
from tests.client.cluster import NAMESRV, Cluster

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

"""A push consumer of topic T on a scripted cluster, and what tests await of it."""

import asyncio
from contextlib import asynccontextmanager

from mqclient.aio import PushConsumer
from mqcommon.message import MessageQueue
from tests.client.cluster import NAME, NAMESRV, Cluster

Q0 = MessageQueue("T", NAME, 0)
RETRY = "%RETRY%g"


class Seen:
    """A handler that records messages; a test can await a condition on them."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._changed = asyncio.Condition()

    async def __call__(self, messages, _context):
        async with self._changed:
            self.bodies += [message.body for message in messages]
            self._changed.notify_all()

    async def until(self, count: int) -> list[bytes]:
        async with asyncio.timeout(60):
            async with self._changed:
                await self._changed.wait_for(lambda: len(self.bodies) >= count)
        return self.bodies


@asynccontextmanager
async def reading(cluster: Cluster, handler, expression="*", **options):
    consumer = PushConsumer("g", NAMESRV, transport=cluster.transport, **options)
    consumer.subscribe("T", expression, handler)
    async with consumer:
        await consumer.wait_assigned(60)
        yield consumer

"""A scripted broker that holds the answers to sends."""

import asyncio

from mqcommon.wire import Frame, RequestCode
from tests.client.cluster import Cluster


class Gate:
    """Has a cluster answer sends only while the gate is open."""

    def __init__(self, cluster: Cluster) -> None:
        self.open = asyncio.Event()
        self.asked = 0
        self.arrived = asyncio.Condition()
        self._store = cluster.send
        for code in (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE):
            cluster.transport.scripts[int(code)] = self.send

    async def send(self, address: str, request: Frame) -> Frame:
        async with self.arrived:
            self.asked += 1
            self.arrived.notify_all()
        await self.open.wait()
        return self._store(address, request)

    async def wait_for(self, count: int) -> None:
        async with self.arrived:
            await asyncio.wait_for(self.arrived.wait_for(lambda: self.asked >= count), 30)

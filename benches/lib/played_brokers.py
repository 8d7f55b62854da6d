"""Brokers that a thread plays: registered at a real NameServer, they answer two questions."""

from __future__ import annotations

import asyncio
import threading
from contextlib import AbstractContextManager
from typing import Self

from benches.lib.route_load import registration, tell
from mqcommon.wire.bodies.common import GroupList, KVTable
from mqcommon.wire.bodies.topics import TopicConfigSerializeWrapper
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame, decode, encode
from mqserver.embedded.raw_client import Probe

RUNTIME = {
    "brokerVersionDesc": "V4_9_7",
    "putTps": "1.0 1.0 1.0",
    "getTransferedTps": "2.0 2.0 2.0",
    "commitLogDiskRatio": "0.5",
    "pageCacheLockTimeMills": "0",
}
GROUPS = ["group_a", "group_b"]


class PlayedBrokers(AbstractContextManager["PlayedBrokers"]):
    """Brokers with runtime figures, whose topics are read by two groups."""

    def __init__(self, namesrv: str, count: int, wrapper: TopicConfigSerializeWrapper) -> None:
        self._count, self._wrapper = count, wrapper
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._probe = Probe(namesrv, timeout=30.0)

    def __enter__(self) -> Self:
        self._thread.start()
        # The NameServer forgets the brokers of a connection that closes.
        for number in range(self._count):
            port = asyncio.run_coroutine_threadsafe(self._listen(), self._loop).result()
            tell(self._probe, registration(number, self._wrapper, f"127.0.0.1:{port}"))
        return self

    def __exit__(self, *_error: object) -> None:
        self._probe.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _listen(self) -> int:
        server = await asyncio.start_server(_serve, "127.0.0.1", 0)
        return int(server.sockets[0].getsockname()[1])


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while True:
            head = await reader.readexactly(4)
            frame = head + await reader.readexactly(int.from_bytes(head, "big"))
            writer.write(encode(_answer(decode(frame))))
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


def _answer(request: Frame) -> Frame:
    is_runtime = request.code == RequestCode.GET_BROKER_RUNTIME_INFO
    body = KVTable(dict(RUNTIME)) if is_runtime else GroupList(GROUPS)
    return Frame(0, body=body.to_json(), opaque=request.opaque, flag=1)

"""Routes that a few bytes make huge."""

from __future__ import annotations

import pytest

from mqclient import aio as mqaio
from mqclient.errors import RocketMQError
from mqstore.message import Message
from tests.client.cluster import NAMESRV, Cluster


@pytest.mark.parametrize("count", [65_537, 10_000_000, 2**31 - 1, -1])
async def test_a_route_with_too_many_queues_is_an_error(count: int) -> None:
    cluster = Cluster(T=count)
    async with mqaio.Producer(NAMESRV, transport=cluster.transport) as producer:
        with pytest.raises(RocketMQError, match=f"{NAMESRV}.*{count} queues of broker"):
            await producer.send(Message("T", b"x"))

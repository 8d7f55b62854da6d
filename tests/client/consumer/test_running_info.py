"""A consumer reports its running info, at a bounded cost under frequent requests."""

import pytest

from mqclient.consumer.push import running_info
from mqcommon.wire import Frame, RequestCode
from tests.client.cluster import BROKER, Cluster
from tests.client.reading import Seen, reading


@pytest.mark.parametrize(("interval", "times"), [(60.0, 1), (0.0, 100)])
async def test_stacks_are_read_once_in_an_interval(
    monkeypatch: pytest.MonkeyPatch, interval: float, times: int
) -> None:
    read: list[str] = []
    monkeypatch.setattr(running_info, "_stacks", lambda: read.append("x") or f"read {len(read)}")
    monkeypatch.setattr(running_info, "STACKS_INTERVAL", interval)
    fields = {"consumerGroup": "g", "clientId": "c", "jstackEnable": "true"}
    async with reading(Cluster(T=1), Seen()) as consumer:
        for _ in range(100):
            request = Frame(int(RequestCode.GET_CONSUMER_RUNNING_INFO), fields)
            reply = await consumer._client._instance._serve(BROKER, request)
            assert reply is not None
            assert f"read {len(read)}".encode() in reply.body
    assert len(read) == times

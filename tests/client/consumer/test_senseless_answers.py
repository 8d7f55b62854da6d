"""Answers to pulls that bring a queue no further do not make a busy loop."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from mqclient.aio import LitePullConsumer
from mqcommon.wire import Frame, RequestCode
from tests.client.cluster import NAMESRV, Cluster, record
from tests.client.reading import Seen, reading
from tests.waiting import until_async

Answer = Callable[[int], Frame]


def frame(code: int, following: int, body: bytes = b"") -> Frame:
    fields = {"suggestWhichBrokerId": "0", "minOffset": "0", "maxOffset": "9"}
    return Frame(code, {**fields, "nextBeginOffset": str(following)}, body)


def damaged(offset: int) -> bytes:
    stored = bytearray(record(0, offset, "T", b"body", {"UNIQ_KEY": "ID"}))
    stored[8] ^= 16
    return bytes(stored)


ANSWERS: dict[str, Answer] = {
    "the same offset again": lambda asked: frame(20, asked),
    "not found at once": lambda asked: frame(19, asked),
    "moved to the same offset": lambda asked: frame(21, asked),
    "to and fro": lambda asked: frame(20, 2**40) if asked < 2**40 else frame(21, 0),
    "every message is damaged": lambda asked: frame(0, asked + 1, damaged(asked)),
    "damaged, and no further": lambda asked: frame(0, asked, damaged(asked)),
    "the same message again": lambda asked: frame(0, asked, record(0, asked, "T", b"x", {})),
    "back to an earlier offset": lambda asked: frame(0, -1, record(0, asked, "T", b"x", {})),
}


async def lite(cluster: Cluster) -> Callable[[], Awaitable[object]]:
    consumer = LitePullConsumer("g", NAMESRV, transport=cluster.transport)
    consumer.subscribe("T")
    await consumer.start()
    return consumer.close


async def push(cluster: Cluster) -> Callable[[], Awaitable[object]]:
    context = reading(cluster, Seen(), consume_from="earliest")
    await context.__aenter__()
    return lambda: context.__aexit__(None, None, None)


@pytest.mark.parametrize("consumer", [push, lite])
@pytest.mark.parametrize("answer", ANSWERS.values(), ids=list(ANSWERS))
async def test_senseless_answers_are_no_busy_loop(
    caplog: pytest.LogCaptureFixture,
    consumer: Callable[[Cluster], Awaitable[Callable[[], Awaitable[object]]]],
    answer: Answer,
) -> None:
    cluster = Cluster(T=1)

    async def pull(_address: str, request: Frame) -> Frame:
        await asyncio.sleep(0)
        return answer(int(request.fields["queueOffset"]))

    cluster.transport.scripts[11] = pull
    pulls = lambda: len(cluster.requests(RequestCode.PULL_MESSAGE))  # noqa: E731
    with caplog.at_level(logging.WARNING, "mqclient"):
        close = await consumer(cluster)
        await until_async(pulls)
        await asyncio.sleep(0.1)  # the test measures requests per time
        made = pulls()
        await close()
    assert made <= 20
    assert len(caplog.records) <= 20


async def test_a_filter_that_passes_over_messages_costs_no_pause() -> None:
    cluster = Cluster(T=1)

    async def pull(_address: str, request: Frame) -> Frame:
        await asyncio.sleep(0)
        asked = int(request.fields["queueOffset"])
        if asked >= 500:
            await asyncio.sleep(60)
        return frame(20, asked + 1)

    cluster.transport.scripts[11] = pull
    async with reading(cluster, Seen(), consume_from="earliest"):
        async with asyncio.timeout(5):
            await until_async(lambda: len(cluster.requests(RequestCode.PULL_MESSAGE)) > 500)

"""Lag in messages and in time, and offsets of many queues."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime

import pytest

import mqclient
from mqclient import Lag, aio
from mqclient.consumer.lag import lag_of
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.engine.parallel import AT_ONCE
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame, RequestCode
from tests.client.cluster import NAMESRV, Cluster, record
from tests.client.reading import Q0
from tests.waiting import until


async def lag_with(position: int, low: int, high: int, stored: list[bytes]) -> tuple[Lag, int]:
    """The lag of a queue that nothing is held of, and how many requests it took."""
    asked = []

    async def invoke(call):
        asked.append(call)
        start = max(int(call.request.fields["queueOffset"]), 0)
        found = stored[start - low] if low <= start < high else b""
        fields = {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": str(start),
            "minOffset": str(low),
            "maxOffset": str(high),
        }
        return Frame(0 if found else 19, fields, found)

    return await lag_of(invoke, ProcessQueue(Q0, position), "g"), len(asked)


def stored(first: int, count: int, age_s: float = 0.0) -> list[bytes]:
    """Records that were stored some seconds ago."""
    made = [bytearray(record(0, first + n, "T", b"x", {})) for n in range(count)]
    for one in made:
        one[56:64] = (time.time_ns() // 1_000_000 - int(age_s * 1000)).to_bytes(8, "big")
    return [bytes(one) for one in made]


async def test_lag_is_counted_from_the_position_by_one_request():
    lag, requests = await lag_with(2, 0, 5, stored(0, 5, age_s=30))
    assert (lag.position, lag.end, lag.messages, requests) == (2, 5, 3, 1)
    assert 30 <= lag.seconds < 90


async def test_a_queue_without_unhandled_messages_has_no_lag():
    assert await lag_with(5, 0, 5, stored(0, 5)) == (Lag(5, 5, 0, 0.0), 1)


async def test_deleted_messages_are_no_lag():
    lag, requests = await lag_with(0, 3, 5, stored(3, 2, age_s=10))
    assert (lag.position, lag.end, lag.messages, requests) == (0, 5, 2, 2)
    assert lag.seconds >= 10


async def test_lag_is_never_negative():
    lag, _ = await lag_with(9, 0, 5, stored(0, 5))
    assert lag == Lag(9, 5, 0, 0.0), "the broker lost messages that were handled"
    lag, _ = await lag_with(0, 0, 1, stored(0, 1, age_s=-60))
    assert (lag.messages, lag.seconds) == (1, 0.0), "the broker's clock is ahead"


async def test_the_age_of_a_held_message_needs_no_pull():
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1")
    begun = asyncio.Event()

    async def handle(_message):
        begun.set()
        await asyncio.Event().wait()

    consumer = aio.PushConsumer(
        "g", NAMESRV, transport=cluster.transport, consume_from="earliest", threads=1
    )
    consumer.on_message("T")(handle)
    await consumer.start()
    await begun.wait()
    before = len(cluster.requests(RequestCode.GET_MAX_OFFSET))
    pulls = len(cluster.requests(RequestCode.PULL_MESSAGE))
    lag = (await consumer.lag())[Q0]
    assert (lag.position, lag.end, lag.messages) == (0, 2, 2)
    assert 0 <= lag.seconds < 60
    assert len(cluster.requests(RequestCode.GET_MAX_OFFSET)) == before + 1
    assert len(cluster.requests(RequestCode.PULL_MESSAGE)) == pulls
    await consumer.close(timeout=0)


async def test_many_queues_are_asked_some_at_a_time():
    cluster = Cluster(T=100)
    running, most = 0, 0

    async def answer(_address, _request):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return cluster.offset(7)

    cluster.transport.scripts[int(RequestCode.GET_MAX_OFFSET)] = answer
    async with aio.LitePullConsumer(None, NAMESRV, transport=cluster.transport) as consumer:
        queues = await consumer.queues("T")
        assert await consumer.end_offsets(queues) == dict.fromkeys(queues, 7)
        assert await consumer.end_offsets([]) == {}
    assert len(cluster.requests(RequestCode.GET_MAX_OFFSET)) == 100
    assert 1 < most <= AT_ONCE


async def test_wrong_questions_are_refused():
    cluster = Cluster(T=1)
    now = datetime.now(UTC)
    async with aio.LitePullConsumer("g", NAMESRV, transport=cluster.transport) as consumer:
        with pytest.raises(TypeError, match="a time must be a datetime, not int"):
            await consumer.offsets_for_times({Q0: 5})
        with pytest.raises(ValueError, match="needs a datetime with a time zone"):
            await consumer.offsets_for_times({Q0: now.replace(tzinfo=None)})
        with pytest.raises(TypeError, match="a queue must be a MessageQueue, not str"):
            await consumer.beginning_offsets(["T"])
        with pytest.raises(ValueError, match="is not assigned"):
            await consumer.lag([Q0])
        with pytest.raises(mqclient.UnreachableError, match="no broker 'broker-z'"):
            await consumer.end_offsets([MessageQueue("T", "broker-z", 0)])
    with pytest.raises(mqclient.ClosedError):
        await consumer.lag()


def test_lag_of_a_group_at_a_real_broker(mq):
    topic = mq.topic(queues=2)
    with (
        mqclient.Producer(mq.namesrv) as producer,
        mqclient.LitePullConsumer("g_lag", mq.namesrv, consume_from="earliest") as consumer,
    ):
        queues = producer.queues(topic)
        sent = [producer.send(mqclient.Message(topic, b"x"), queue=queues[0]) for _ in range(3)]
        mq.wait_dispatched()
        consumer.subscribe(topic)
        assert consumer.wait_assigned(60) == queues
        assert [consumer.lag()[queue].messages for queue in queues] == [3, 0]
        taken = consumer.poll(2, timeout=60)
        consumer.commit(taken)
        assert until(lambda: consumer.lag()[queues[0]].messages == 3 - len(taken))
        assert consumer.beginning_offsets() == dict.fromkeys(queues, 0)
        assert consumer.end_offsets() == {queues[0]: 3, queues[1]: 0}
        long_ago = datetime(2001, 1, 1, tzinfo=UTC)
        found = consumer.offsets_for_times(dict.fromkeys(queues, long_ago))
        assert found[queues[0]].offset == sent[0].queue_offset
        assert found[queues[1]] is None

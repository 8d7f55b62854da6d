"""`flush`: what it waits for, what it leaves, and what it says of the rest."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

import pytest

from mqclient import BrokerError, ClientTimeout, ClosedError, Linger, Message, Producer, aio
from mqcommon.wire import Frame, RequestCode
from tests.client.cluster import NAMESRV, Cluster
from tests.client.producer.endless import LONG, endless
from tests.client.producer.gate import Gate
from tests.waiting import until_async


async def test_flush_waits_for_the_sends_before_it_only() -> None:
    cluster = Cluster(T=1)
    gate = Gate(cluster)
    async with aio.Producer(NAMESRV, transport=cluster.transport) as producer:
        first = asyncio.create_task(producer.send(Message("T", b"1")))
        await gate.wait_for(1)
        flush = asyncio.create_task(producer.flush())
        await asyncio.sleep(0)
        gate.open.set()
        await first
        gate.open.clear()
        later = asyncio.create_task(producer.send(Message("T", b"2")))
        await gate.wait_for(2)
        await flush
        assert not later.done()
        gate.open.set()


async def test_a_flush_that_times_out_counts_what_is_left() -> None:
    cluster = Cluster(T=1)
    gate = Gate(cluster)
    async with aio.Producer(NAMESRV, transport=cluster.transport) as producer:
        batch = [Message("T", b"1"), Message("T", b"2")]
        sends = [asyncio.create_task(producer.send(it)) for it in (batch, Message("T", b"3"))]
        await gate.wait_for(2)
        for _ in range(2):  # a second flush waits for the same messages
            with pytest.raises(ClientTimeout, match=r"3 messages have no result after 0.01 s"):
                await producer.flush(0.01)
        gate.open.set()
        await producer.flush()
        assert all(send.done() for send in sends)


async def test_flush_ends_the_wait_of_linger() -> None:
    cluster = Cluster(T=1)
    options = {"transport": cluster.transport, "linger": endless(), "timeout": LONG}
    async with aio.Producer(NAMESRV, **options) as producer:
        sends = [asyncio.create_task(producer.send(Message("T", b"x"))) for _ in range(3)]
        await asyncio.sleep(0)
        await producer.flush(LONG / 6)
        assert [(await send).queue_offset for send in sends] == [0, 1, 2]
    assert len(cluster.requests(RequestCode.SEND_BATCH_MESSAGE)) == 1


async def test_errors_stay_with_their_sends() -> None:
    cluster = Cluster(T=1)
    cluster.transport.scripts[310] = lambda _a, _r: Frame(13, remark="illegal")
    async with aio.Producer(NAMESRV, transport=cluster.transport) as producer:
        send = asyncio.create_task(producer.send(Message("T", b"x")))
        await producer.flush()
        with pytest.raises(BrokerError):
            await send


async def test_a_cancelled_send_holds_no_flush() -> None:
    cluster = Cluster(T=1)
    gate = Gate(cluster)
    async with aio.Producer(NAMESRV, transport=cluster.transport) as producer:
        send = asyncio.create_task(producer.send(Message("T", b"x")))
        await gate.wait_for(1)
        flush = asyncio.create_task(producer.flush())
        await asyncio.sleep(0)
        send.cancel()
        await flush


async def test_one_way_sends_are_waited_for() -> None:
    cluster = Cluster(T=1)
    reached, go = asyncio.Event(), asyncio.Event()

    async def take(_address: str, _request: Frame) -> Frame:
        reached.set()
        await go.wait()
        return Frame(0)

    cluster.transport.scripts[310] = take
    async with aio.Producer(NAMESRV, transport=cluster.transport) as producer:
        send = asyncio.create_task(producer.send_oneway(Message("T", b"x")))
        await reached.wait()
        flush = asyncio.create_task(producer.flush())
        await until_async(lambda: producer._in_flight._flushes)
        assert not flush.done()
        go.set()
        await flush
        assert send.done()


def test_the_blocking_flush_waits_for_all_futures(mq) -> None:
    topic = mq.topic()
    with Producer(mq.namesrv, linger=Linger(0.05)) as producer:
        futures = [producer.send_async(Message(topic, b"%d" % i)) for i in range(500)]
        producer.send_oneway(Message(topic, b"one-way"))
        refused = producer.send_async(Message(topic, b""))
        producer.flush()
        assert all(future.done() for future in futures)
        assert isinstance(refused.exception(), ValueError)
    assert len(mq.messages(topic)) == 501


async def test_a_coroutine_may_use_the_blocking_producer() -> None:
    with Producer(NAMESRV, transport=Cluster(T=1).transport) as producer:
        future = producer.send_async(Message("T", b"x"))
        producer.flush()
        assert future.result(0).queue_offset == 0


def test_a_callback_may_send(mq) -> None:
    """Callbacks of futures run on the thread of all clients, where nothing may wait."""
    topic, second = mq.topic(), Future()
    with Producer(mq.namesrv) as producer:
        first = producer.send_async(Message(topic, b"1"))
        first.add_done_callback(
            lambda _future: second.set_result(producer.send_async(Message(topic, b"2")))
        )
        assert second.result(30).result(30).offset_msg_id


def test_a_cancelled_future_gives_its_room_back(mq) -> None:
    with Producer(mq.namesrv) as producer:
        topic = mq.topic()
        for _ in range(20):
            producer.send_async(Message(topic, b"x")).cancel()
        producer.flush()
        assert producer._async._in_flight.messages == 0


def test_close_waits_for_the_futures(mq) -> None:
    topic = mq.topic()
    with Producer(mq.namesrv) as producer:
        futures = [producer.send_async(Message(topic, b"x")) for _ in range(200)]
    assert all(future.result(0).offset_msg_id for future in futures)


def test_flush_before_the_start_says_so() -> None:
    with pytest.raises(ClosedError, match="not started"):
        Producer(NAMESRV).flush()


async def test_sends_are_limited_by_default() -> None:
    cluster = Cluster(T=1)
    gate = Gate(cluster)
    async with aio.Producer(NAMESRV, transport=cluster.transport, timeout=30) as producer:
        batch = [Message("T", b"x")] * 5000
        sends = [asyncio.create_task(producer.send(batch)) for _ in range(2)]
        await gate.wait_for(2)
        for send in (producer.send, lambda m, timeout: producer.request(m, timeout=timeout)):
            with pytest.raises(ClientTimeout, match="nothing was sent: 10000 messages with 10000 "):
                await send(Message("T", b"x"), timeout=0.01)
        gate.open.set()
        await asyncio.gather(*sends)


def test_threads_share_the_limits_in_turn(mq) -> None:
    """Eight threads send 50 messages each through a window of four."""
    topic, most = mq.topic(), [0]
    with Producer(mq.namesrv, limits=aio.SendLimits(max_messages=4)) as producer:

        def work() -> None:
            for _ in range(50):
                producer.send_async(Message(topic, b"x"), timeout=30)
                most[0] = max(most[0], producer._async._in_flight.messages)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        producer.flush()
    assert len(mq.messages(topic)) == 400
    assert most[0] <= 4

"""The lite pull consumer, both faces, at our broker over real sockets, on both data planes."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta

import pytest

from mqclient import (
    BrokerError,
    ClosedError,
    LitePullConsumer,
    LitePullLimits,
    Message,
    MessageQueue,
    Producer,
    SqlFilter,
    UnreachableError,
    aio,
)
from mqserver.embedded.standalone import Standalone
from mqserver.embedded.testing import free_port
from tests.waiting import until


def send(mq: Standalone, topic: str, *bodies: bytes, queue_id: int = 0, **fields: str) -> None:
    with Producer(mq.namesrv) as producer:
        queue = next(q for q in producer.queues(topic) if q.queue_id == queue_id)
        for body in bodies:
            producer.send(Message(topic, body, **fields), queue=queue)


def reader(mq: Standalone, group: str | None, **options: object) -> LitePullConsumer:
    return LitePullConsumer(group, mq.namesrv, consume_from="earliest", **options)  # type: ignore


def take(consumer: LitePullConsumer, count: int) -> list[bytes]:
    messages = iter(consumer)
    return [next(messages).body for _ in range(count)]


def test_a_group_goes_on_where_it_stopped(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    send(mq, topic, b"0", b"1", b"2", b"3")
    with reader(mq, "lite_again") as consumer:
        consumer.subscribe(topic)
        assert take(consumer, 2) == [b"0", b"1"]
    with reader(mq, "lite_again") as consumer:
        consumer.subscribe(topic)
        (queue,) = consumer.wait_assigned()
        assert take(consumer, 3) == [b"1", b"2", b"3"], "the message in hand came again"
        assert consumer.position(queue) == 3
        assert [message.body for message in consumer.poll(1, timeout=0)] == []
        assert consumer.position(queue) == 4
    mq.wait_consumed("lite_again", topic)


def test_an_exception_in_the_loop_leaves_the_message_in_hand(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    send(mq, topic, b"0", b"1")
    with pytest.raises(RuntimeError), reader(mq, "lite_error") as consumer:
        consumer.subscribe(topic)
        for message in consumer:
            if message.body == b"1":
                raise RuntimeError("cannot handle this")
    with reader(mq, "lite_error") as consumer:
        consumer.subscribe(topic)
        assert take(consumer, 1) == [b"1"]


def test_seek_position_and_time(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    send(mq, topic, b"0", b"1")
    mq.wait_dispatched()
    with reader(mq, None) as consumer:
        (queue,) = consumer.queues(topic)
        consumer.assign([queue])
        first, second = consumer.poll(2)
        later = second.store_timestamp + timedelta(hours=1)
        before = later - timedelta(days=1)
        assert consumer.offset_for_timestamp(queue, before) == 0
        assert consumer.offset_for_timestamp(queue, later) == 2, "a later time gives the end"
        consumer.seek(queue, before)
        assert take(consumer, 1) == [first.body]
        consumer.seek(queue, 1)
        assert take(consumer, 1) == [second.body]
        consumer.seek_to_begin(queue)
        assert take(consumer, 2) == [b"0", b"1"]
        consumer.seek_to_end(queue)
        assert consumer.position(queue) == 2
        for wrong, words in ((3, "holds 0 to 2"), (datetime(2026, 1, 1), "time zone")):
            with pytest.raises(ValueError, match=words):
                consumer.seek(queue, wrong)


def test_pause_resume_and_commit(mq: Standalone) -> None:
    topic = mq.topic(queues=2)
    send(mq, topic, b"a", queue_id=0)
    with reader(mq, "lite_pause", commit_interval=None) as consumer:
        consumer.subscribe(topic)
        first, second = consumer.wait_assigned()
        consumer.pause([first])
        send(mq, topic, b"b", queue_id=1)
        (message,) = consumer.poll(9)
        assert message.body == b"b"
        consumer.resume()
        assert take(consumer, 1) == [b"a"]
        assert consumer.committed(second) is None or consumer.committed(second) == 0
        consumer.commit(message)
        assert consumer.committed(second) == 1
        consumer.commit()
        assert consumer.committed(first) == 1, "the message in hand is included"


def test_members_share_and_the_one_left_takes_over(mq: Standalone) -> None:
    topic = mq.topic(queues=4)
    heard: list[tuple[str, int]] = []
    with reader(mq, "lite_share") as first:
        first.on_rebalance(
            assigned=lambda queues: heard.append(("assigned", len(queues))),
            revoked=lambda queues: heard.append(("revoked", len(queues))),
        )
        first.subscribe(topic)
        assert len(first.wait_assigned()) == 4
        with reader(mq, "lite_share") as second:
            second.subscribe(topic)
            assert len(second.wait_assigned()) == 2
            assert until(lambda: len(first.assignment()) == 2)
            assert not set(first.assignment()) & set(second.assignment())
        assert until(lambda: len(first.assignment()) == 4)
        for queue_id in range(4):
            send(mq, topic, b"%d" % queue_id, queue_id=queue_id)
        assert sorted(take(first, 4)) == [b"0", b"1", b"2", b"3"]
    assert heard == [("assigned", 4), ("revoked", 2), ("assigned", 2), ("revoked", 4)]


async def test_filters(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    send(mq, topic, b"A", tags="A")
    send(mq, topic, b"B", tags="B", properties={"a": "7"})
    async with aio.LitePullConsumer("lite_sql", mq.namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(topic, SqlFilter("a > 5"))
        assert (await anext(consumer)).body == b"B"
        consumer.subscribe(topic, SqlFilter("a >"))
        with pytest.raises(BrokerError):
            await consumer.wait_assigned()
    async with aio.LitePullConsumer(None, mq.namesrv, consume_from="earliest") as consumer:
        consumer.assign(await consumer.queues(topic), "B || C")
        assert (await anext(consumer)).body == b"B"
    async with aio.LitePullConsumer(None, mq.namesrv, consume_from="earliest") as consumer:
        consumer.assign(await consumer.queues(topic), SqlFilter("a > 5"))
        assert (await anext(consumer)).body == b"B"


async def test_an_assigned_reader_gets_the_error_of_a_bad_filter(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    async with aio.LitePullConsumer(None, mq.namesrv) as consumer:
        consumer.assign(await consumer.queues(topic), SqlFilter("a >"))
        with pytest.raises(BrokerError, match="SUBSCRIPTION_PARSE_FAILED"):
            await anext(consumer)


async def test_cancellation_in_the_wait_loses_nothing(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    async with aio.LitePullConsumer("lite_cancel", mq.namesrv) as consumer:
        consumer.subscribe(topic)
        await consumer.wait_assigned()
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.02):
                    await anext(consumer)
        await asyncio.to_thread(send, mq, topic, b"0", b"1")
        async with asyncio.timeout(60):
            assert [(await anext(consumer)).body for _ in range(2)] == [b"0", b"1"]


@pytest.fixture
def own_mq(plane: str) -> Iterator[Standalone]:
    """A broker that the test may stop."""
    with Standalone(settings={"dataPlane": plane}) as both:
        yield both


async def test_a_restart_of_the_broker_is_ridden_out(own_mq: Standalone) -> None:
    mq = own_mq
    topic = mq.topic(queues=2)
    await asyncio.to_thread(send, mq, topic, b"0")
    options = {"consume_from": "earliest", "commit_interval": 0.1}
    async with aio.LitePullConsumer("lite_restart", mq.namesrv, **options) as consumer:
        consumer.subscribe(topic)
        assert (await anext(consumer)).body == b"0"
        reading = asyncio.ensure_future(anext(consumer))
        await asyncio.to_thread(mq.restart)
        await asyncio.to_thread(send, mq, topic, b"1", queue_id=1)
        async with asyncio.timeout(60):
            assert (await reading).body == b"1"
        queue = MessageQueue(topic, consumer.assignment()[0].broker_name, 0)

        async def committed() -> int | None:
            return await consumer.committed(queue)

        async with asyncio.timeout(60):
            while await committed() != 1:
                await asyncio.sleep(0.05)


async def test_an_unreachable_nameserver_and_broker(own_mq: Standalone) -> None:
    nobody = f"127.0.0.1:{free_port()}"
    with pytest.raises(UnreachableError, match=r"no NameServer answers.*mqserver namesrv start"):
        async with aio.LitePullConsumer("g", nobody) as consumer:
            await consumer.queues("T")
    topic = own_mq.topic(queues=1)
    async with aio.LitePullConsumer("g", own_mq.namesrv) as consumer:
        consumer.assign(queues := await consumer.queues(topic))
        await consumer.wait_assigned()
        await asyncio.to_thread(own_mq.stop)
        with pytest.raises(UnreachableError, match=r"does not answer at .*brokerIP1"):
            await consumer.commit({queues[0]: 0})
        with pytest.raises(UnreachableError, match="does not answer at"):
            await consumer.seek_to_begin(queues[0])


def test_close_ends_a_loop_in_another_thread(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    consumer = reader(mq, "lite_close")
    with pytest.raises(ClosedError, match=r"not started; call start\(\)"):
        next(iter(consumer))
    consumer.subscribe(topic)
    consumer.start()
    send(mq, topic, b"0")
    seen = threading.Event()

    def read() -> list[bytes]:
        bodies = []
        for message in consumer:
            bodies.append(message.body)
            seen.set()
        return bodies

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        assert seen.wait(60)
        consumer.close()
        assert reading.result(60) == [b"0"]
    for call in (lambda: consumer.poll(1), lambda: iter(consumer), consumer.commit):
        with pytest.raises(ClosedError, match="closed; make a new one"):
            call()


def test_ctrl_c_ends_a_waiting_loop(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    with reader(mq, "lite_interrupt") as consumer:
        consumer.subscribe(topic)
        consumer.wait_assigned()
        main = threading.main_thread().ident
        assert main is not None
        signals = threading.Timer(0.1, signal.pthread_kill, (main, signal.SIGINT))
        signals.start()
        with pytest.raises(KeyboardInterrupt):
            next(iter(consumer))
        send(mq, topic, b"0")
        assert take(consumer, 1) == [b"0"]


async def test_twenty_thousand_messages_in_order_and_none_twice(mq: Standalone) -> None:
    topic = mq.topic(queues=2)
    async with aio.Producer(mq.namesrv) as producer:
        for start in range(0, 20_000, 500):
            batch = [Message(topic, b"%d" % i) for i in range(start, start + 500)]
            await producer.send(batch)
    seen: dict[int, list[int]] = {0: [], 1: []}
    options = {
        "consume_from": "earliest",
        "limits": LitePullLimits(queue_messages=100, total_messages=150),
    }
    async with aio.LitePullConsumer("lite_many", mq.namesrv, **options) as consumer:
        consumer.subscribe(topic)
        async for message in consumer:
            seen[message.queue_id].append(int(message.body))
            if sum(map(len, seen.values())) == 20_000:
                break
    assert all(bodies == sorted(bodies) for bodies in seen.values())
    assert sorted(seen[0] + seen[1]) == list(range(20_000))

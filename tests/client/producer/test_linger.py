"""Sends that are gathered into batches: results and errors of each, order, what goes alone."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from mqclient import BrokerError, Linger, Message, MessageQueue, SendLimits
from mqclient import Producer as BlockingProducer
from mqclient.aio import Producer
from mqcommon.wire import Frame, RequestCode
from mqserver.embedded.standalone import Standalone
from tests.client.cluster import NAMESRV, Cluster
from tests.client.producer.endless import LONG, endless


def producer(cluster: Cluster, **options) -> Producer:
    # Long enough for simultaneous sends on a busy machine, in seconds.
    options = {"linger": Linger(0.05), **options}
    return Producer(NAMESRV, transport=cluster.transport, queue_index_start=0, **options)


def sends(cluster: Cluster) -> list[tuple[RequestCode, str]]:
    """Kind and queue of each request, in order."""
    kinds = (RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE)
    return [
        (RequestCode(frame.code), frame.fields["e"])
        for _, frame in cluster.transport.sent
        if frame.code in kinds
    ]


ONE, MANY = RequestCode.SEND_MESSAGE_V2, RequestCode.SEND_BATCH_MESSAGE


async def test_each_message_has_its_own_result_and_keeps_its_place(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    async with Producer(mq.namesrv, linger=Linger(0.001, max_messages=32)) as sender:
        await sender.queues(topic)
        messages = [Message(topic, b"%d" % i, keys=f"k{i}") for i in range(300)]
        results = await asyncio.gather(*map(sender.send, messages))
    stored = mq.messages(topic)
    assert [message.body for message in stored] == [b"%d" % i for i in range(300)]
    assert [result.queue_offset for result in results] == list(range(300))
    assert [result.msg_id for result in results] == [message.msg_id for message in stored]
    assert {result.status for result in results} == {"SEND_OK"}
    assert all("," not in result.offset_msg_id for result in results)


async def test_order_of_given_queues_with_messages_that_go_alone(mq: Standalone) -> None:
    topic = mq.topic(queues=2)
    bodies = [b"%03d" % i + bytes(5000 if i % 7 == 0 else 10) for i in range(100)]
    async with Producer(mq.namesrv, linger=Linger(0.001)) as sender:
        queues = await sender.queues(topic)
        await asyncio.gather(
            *(
                sender.send(Message(topic, body), queue=queues[i % 2])
                for i, body in enumerate(bodies)
            )
        )
    for queue in queues:
        stored = [one.body for one in mq.messages(topic) if one.queue_id == queue.queue_id]
        assert stored == bodies[queue.queue_id :: 2]


def test_blocking_sends_and_futures_are_gathered(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    with (
        BlockingProducer(mq.namesrv, linger=Linger(0.005)) as sender,
        ThreadPoolExecutor(16) as pool,
    ):
        list(pool.map(lambda i: sender.send(Message(topic, b"%d" % i)), range(64)))
        futures = [sender.send_async(Message(topic, b"%d" % i)) for i in range(64, 128)]
        assert [future.result(60).queue_offset for future in futures] == list(range(64, 128))
    assert {one.body for one in mq.messages(topic)} == {b"%d" % i for i in range(128)}


async def test_the_time_or_a_bound_sends_a_batch():
    cluster = Cluster(T=1)
    async with producer(cluster) as sender:
        await asyncio.gather(*(sender.send(Message("T", b"x")) for _ in range(5)))
    assert sends(cluster) == [(MANY, "0")]

    cluster = Cluster(T=1)
    async with producer(cluster, linger=endless(max_messages=3), timeout=2 * LONG) as sender:
        await asyncio.gather(*(sender.send(Message("T", b"x")) for _ in range(6)))
    assert sends(cluster) == [(MANY, "0")] * 2

    cluster = Cluster(T=1)
    async with producer(cluster, linger=endless(max_bytes=1200), timeout=2 * LONG) as sender:
        first = [asyncio.ensure_future(sender.send(Message("T", bytes(400)))) for _ in range(3)]
        await asyncio.gather(*first[:2])
        assert sends(cluster) == [(MANY, "0")]
    assert sends(cluster) == [(MANY, "0"), (ONE, "0")]


async def test_sends_with_middleware_and_limits_are_gathered_too():
    cluster, seen = Cluster(T=1), []

    def note(message, _context):
        seen.append(message)
        yield

    async with producer(
        cluster, linger=endless(max_messages=5), timeout=2 * LONG,
        middleware=[note], limits=SendLimits(max_messages=5),
    ) as sender:  # fmt: skip
        await asyncio.gather(*(sender.send(Message("T", b"x")) for _ in range(5)))
    assert (sends(cluster), len(seen)) == ([(MANY, "0")], 5)


async def test_single_messages_are_no_batch_and_batches_rotate_queues():
    cluster = Cluster(T=4)
    async with producer(cluster) as sender:
        await sender.send(Message("T", b"x"))
        for _ in range(2):
            await asyncio.gather(*(sender.send(Message("T", b"x")) for _ in range(3)))
    assert sends(cluster) == [(ONE, "0"), (MANY, "1"), (MANY, "2")]


async def test_what_cannot_be_in_a_batch_goes_alone_in_its_place():
    cluster = Cluster(T=1, **{"%RETRY%g": 1})
    delayed = Message("T", b"later")
    delayed.delay_level = 3
    messages = [
        *(Message("T", b"1"), Message("T", b"2"), delayed, Message("T", b"3")),
        *(Message("T", bytes(4096)), Message("T", b"4"), Message("T", b"5")),
        *(Message("T", b"6", wait_store_ok=False), Message("%RETRY%g", b"7")),
    ]
    async with producer(cluster) as sender:
        await sender.queues("T")
        await asyncio.gather(*map(sender.send, messages))
        await sender.send([Message("T", b"8"), Message("T", b"9")])
    kinds = [
        frame.code
        for _, frame in cluster.transport.sent
        if frame.code in (ONE, MANY) and frame.fields["b"] == "T"
    ]
    assert kinds == [MANY, ONE, ONE, ONE, MANY, ONE, MANY]


async def test_an_error_of_a_batch_goes_to_each_message():
    cluster = Cluster(T=1)
    cluster.transport.scripts[int(MANY)] = lambda _a, _r: Frame(2, remark="busy")
    async with producer(cluster) as sender:
        outcomes = await asyncio.gather(
            *(sender.send(Message("T", b"x")) for _ in range(3)), return_exceptions=True
        )
    assert [type(one) for one in outcomes] == [BrokerError] * 3
    assert sends(cluster) == [(MANY, "0")]


async def test_a_message_that_cannot_be_sent_fails_alone():
    cluster = Cluster(T=1)
    bad = Message("T", b"x")
    bad.properties["a"] = "b\x02c"
    async with producer(cluster) as sender:
        messages = (Message("T", b"1"), bad, Message("T", b""), Message("T", b"2"))
        outcomes = await asyncio.gather(*map(sender.send, messages), return_exceptions=True)
        with pytest.raises(ValueError, match="topic"):
            await sender.send(Message("no topic", b"x"))
        with pytest.raises(ValueError, match="does not belong"):
            await sender.send(Message("T", b"x"), queue=MessageQueue("U", "broker-a", 0))
    assert [isinstance(one, ValueError) for one in outcomes] == [False, True, True, False]


async def test_close_sends_what_waits_and_a_cancelled_send_is_left_out():
    cluster = Cluster(T=1)
    async with producer(cluster, linger=endless(), timeout=2 * LONG) as sender:
        sending = [asyncio.ensure_future(sender.send(Message("T", b"%d" % i))) for i in range(3)]
        await asyncio.sleep(0)
        sending[0].cancel()
        sending[1].cancel()
        await asyncio.wait(sending[:2])
        assert sends(cluster) == []
    assert sends(cluster) == [(ONE, "0")]
    assert (await sending[2]).queue_offset == 0


async def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match=r"wait must be 0\.0001 to 1 seconds, not -1"):
        Producer(NAMESRV, linger=Linger(-1))
    with pytest.raises(ValueError, match="max_messages must be 1 to 10_000 messages, not 0"):
        Producer(NAMESRV, linger=Linger(max_messages=0))

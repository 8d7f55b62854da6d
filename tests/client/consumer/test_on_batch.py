"""Handlers of lists with a size and a time, and what handlers may take."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from mqclient import ConsumeContext, Message, Producer, PushConsumer, ReceivedMessage, aio
from mqclient.serializers import Text
from mqserver import Standalone
from tests.waiting import until_async

DEADLINE = 60
LONG = 30.0


@pytest.fixture(scope="module")
def mq() -> Iterator[Standalone]:
    with Standalone(settings={"messageDelayLevel": "1s"}) as both:
        yield both


def send(mq: Standalone, topic: str, *bodies: bytes) -> None:
    with Producer(mq.namesrv) as producer:
        for body in bodies:
            producer.send(Message(topic, body))


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_full_batch_waits_for_nothing(mq: Standalone, kind: str, orderly: bool) -> None:
    topic, done, sizes = mq.topic(queues=1), threading.Event(), list[int]()
    consumer = PushConsumer(
        f"g_full_{kind[:3]}_{orderly}", mq.namesrv, consume_from="earliest", orderly=orderly
    )

    def handle(messages: list[ReceivedMessage]) -> None:
        sizes.append(len(messages))
        if sum(sizes) == 40:
            done.set()

    async def handle_async(messages: list[ReceivedMessage]) -> None:
        handle(messages)

    consumer.on_batch(topic, max_messages=20, max_wait=LONG)(
        handle if kind == "def" else handle_async
    )
    with consumer:
        consumer.wait_assigned()
        send(mq, topic, *(b"%d" % i for i in range(40)))  # each pull brings one or two
        assert done.wait(LONG / 2)
    assert sizes == [20, 20]


@pytest.mark.parametrize("orderly", [False, True])
async def test_a_part_of_a_batch_leaves_after_its_time(mq: Standalone, orderly: bool) -> None:
    topic, calls = mq.topic(queues=1), list[tuple[int, float]]()
    consumer = aio.PushConsumer(
        f"g_part_{orderly}", mq.namesrv, consume_from="earliest", orderly=orderly
    )

    @consumer.on_batch(topic, max_messages=100, max_wait=0.2)
    async def handle(messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        assert context.message_queue.topic == topic
        calls.append((len(messages), time.time() - messages[0].store_timestamp_ms / 1000))

    async with consumer:
        await consumer.wait_assigned()
        await asyncio.to_thread(send, mq, topic, b"1", b"2", b"3")
        await until_async(lambda: sum(size for size, _ in calls) == 3)
    assert calls[0][1] >= 0.15


async def test_messages_that_wait_in_a_batch_come_again(mq: Standalone) -> None:
    """Nothing of them is committed when the consumer closes."""
    topic, seen = mq.topic(queues=1), list[bytes]()
    await asyncio.to_thread(send, mq, topic, b"1", b"2")
    options = {"consume_from": "earliest"}
    async with aio.PushConsumer("g_again", mq.namesrv, **options) as consumer:
        consumer.on_batch(topic, max_wait=LONG)(lambda messages: seen.append(b"too soon"))
        await until_async(lambda: consumer._service._gatherer._waiting)
    async with aio.PushConsumer("g_again", mq.namesrv, **options) as consumer:
        consumer.on_batch(topic, max_messages=2, max_wait=LONG)(
            lambda messages: seen.extend(message.body for message in messages)
        )
        await until_async(lambda: len(seen) == 2)
    assert seen == [b"1", b"2"]


async def test_a_failed_batch_comes_again_as_one(mq: Standalone) -> None:
    topic, calls = mq.topic(queues=1), list[list[int]]()
    consumer = aio.PushConsumer("g_failed", mq.namesrv, consume_from="earliest")

    @consumer.on_batch(topic, max_messages=3, max_wait=2.0)
    def handle(messages: list[ReceivedMessage]) -> None:
        calls.append([message.reconsume_times for message in messages])
        if len(calls) == 1:
            raise RuntimeError("not yet")

    async with consumer:
        await consumer.wait_assigned()
        await asyncio.to_thread(send, mq, topic, b"1", b"2", b"3")
        await until_async(lambda: len(calls) == 2)
    assert calls == [[0, 0, 0], [1, 1, 1]]


# --- what handlers take


class Bound:
    def __init__(self, seen: list[object]) -> None:
        self.seen = seen

    def handle(self, message: ReceivedMessage[str], context: ConsumeContext) -> None:
        self.seen += [message.value, context.message_queue.topic]

    def __call__(self, messages: list[ReceivedMessage[str]]) -> None:
        self.seen += [message.value for message in messages]


async def test_handlers_get_what_they_are_typed_for(mq: Standalone) -> None:
    seen: list[object] = []
    topics = [mq.topic(queues=1) for _ in range(5)]
    consumer = aio.PushConsumer(
        "g_typed", mq.namesrv, consume_from="earliest", deserializer=Text(), batch_size=8
    )
    bound = Bound(seen)

    def one(message: ReceivedMessage[str]) -> None:
        seen.append(message.value)

    async def with_context(message: ReceivedMessage[bytes], context: ConsumeContext) -> None:
        seen.append((message.value, context.message_queue.queue_id))

    def with_default(message: ReceivedMessage[str], database: str = "db") -> None:
        seen.append((message.value, database))

    consumer.subscribe(topics[0], "*", one)  # the annotation says one message
    consumer.on_message(topics[1], deserializer=bytes.upper)(with_context)
    consumer.on_message(topics[2])(bound.handle)
    consumer.subscribe(topics[3], "*", bound)
    consumer.on_message(topics[4])(with_default)
    async with consumer, aio.Producer(mq.namesrv) as producer:
        for topic in topics:
            await producer.send(Message(topic, b"a"))
        await until_async(lambda: len(seen) == 6)
    expected: list[Any] = ["a", (b"A", 0), "a", topics[2], "a", ("a", "db")]
    assert sorted(seen, key=str) == sorted(expected, key=str)

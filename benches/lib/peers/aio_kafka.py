"""aiokafka: the asyncio client of Kafka."""

import asyncio
import time

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from benches.lib.measured import (
    BODY,
    LIST,
    ROUND_SECONDS,
    Backlog,
    Figures,
    Load,
    Spans,
    awaited,
    on_loop,
)
from benches.lib.peers.confluent import BACKLOG_TOPIC, LATENCY_TOPIC, TOPIC

LIST_WAIT_MS = 1000


async def awaited_256(address: str, count: int) -> Figures:
    """`send_and_wait` in 256 tasks."""
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        return await awaited(lambda: producer.send_and_wait(TOPIC, BODY), count)


async def send_one(address: str, count: int) -> Figures:
    """`send_and_wait`, one at a time."""
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        return await awaited(lambda: producer.send_and_wait(TOPIC, BODY), count, 1)


async def async_handler(address: str, count: int) -> Figures:
    """`async for`."""
    backlog = Backlog(count, ROUND_SECONDS)
    async with _consumer(address, BACKLOG_TOPIC, "earliest") as consumer:
        async for message in consumer:
            len(message.value)
            backlog.take(1)
            if backlog.done.is_set():
                break
    return backlog.figures


async def lists(address: str, count: int) -> Figures:
    """`getmany` of up to 500."""
    backlog = Backlog(count, ROUND_SECONDS)
    async with _consumer(address, BACKLOG_TOPIC, "earliest") as consumer:
        while not backlog.done.is_set():
            read = await consumer.getmany(timeout_ms=LIST_WAIT_MS, max_records=LIST)
            for messages in read.values():
                for message in messages:
                    len(message.value)
                backlog.take(len(messages))
    return backlog.figures


async def async_latency(address: str, count: int) -> Figures:
    """From `send_and_wait` to `async for` on one loop."""
    spans = Spans()
    async with AIOKafkaProducer(bootstrap_servers=address) as producer:
        await producer.send_and_wait(LATENCY_TOPIC, BODY)
        async with _consumer(address, LATENCY_TOPIC, "latest") as consumer:

            async def read() -> None:
                async for message in consumer:
                    spans.add(message.value)

            await consumer.seek_to_end()
            reading = asyncio.create_task(read())
            try:
                return await spans.measure_async(
                    lambda body: producer.send_and_wait(LATENCY_TOPIC, body), count
                )
            finally:
                reading.cancel()


def _consumer(address: str, topic: str, start: str) -> AIOKafkaConsumer:
    group = f"peers-{time.monotonic_ns()}"
    return AIOKafkaConsumer(
        topic, bootstrap_servers=address, group_id=group, auto_offset_reset=start
    )


CASES: dict[str, Load] = {
    case.__name__: on_loop(case)
    for case in (awaited_256, send_one, async_handler, lists, async_latency)
}

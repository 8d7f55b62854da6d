"""aio-pika: the asyncio client of RabbitMQ, with publisher confirms and a durable queue."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aio_pika

from benches.lib.measured import (
    BODY,
    ROUND_SECONDS,
    Backlog,
    Figures,
    Load,
    Spans,
    awaited,
    on_loop,
)
from benches.lib.peers.rabbit import BACKLOG_QUEUE, LATENCY_QUEUE, QUEUE, top_up


async def awaited_256(address: str, count: int) -> Figures:
    """`publish` with a confirm in 256 tasks."""
    return await _sent(address, count, 256)


async def send_one(address: str, count: int) -> Figures:
    """`publish` with a confirm, one at a time."""
    return await _sent(address, count, 1)


async def _sent(address: str, count: int, in_flight: int) -> Figures:
    async with _open(address) as channel:
        await (await channel.declare_queue(QUEUE, durable=True)).purge()
        exchange = channel.default_exchange
        return await awaited(
            lambda: exchange.publish(aio_pika.Message(BODY), QUEUE), count, in_flight
        )


async def async_handler(address: str, count: int) -> Figures:
    """`consume` with an `async def` that acknowledges each message."""
    count = await asyncio.to_thread(top_up, address, count)
    backlog, done = Backlog(count, ROUND_SECONDS), asyncio.Event()

    async def handle(message: Any) -> None:
        if backlog.done.is_set():
            return
        len(message.body)
        await message.ack()
        backlog.take(1)
        if backlog.done.is_set():
            done.set()

    async with _open(address) as channel:
        queue = await channel.declare_queue(BACKLOG_QUEUE, durable=True)
        await queue.consume(handle)
        await done.wait()
    return backlog.figures


async def async_latency(address: str, count: int) -> Figures:
    """From `publish` with a confirm to an `async def` on one loop."""
    spans = Spans()

    async def handle(message: Any) -> None:
        spans.add(message.body)
        await message.ack()

    async with _open(address) as channel:
        queue = await channel.declare_queue(LATENCY_QUEUE, durable=True)
        await queue.purge()
        await queue.consume(handle)
        exchange = channel.default_exchange
        return await spans.measure_async(
            lambda body: exchange.publish(aio_pika.Message(body), LATENCY_QUEUE), count
        )


@asynccontextmanager
async def _open(address: str) -> AsyncIterator[Any]:
    async with await aio_pika.connect(f"amqp://guest:guest@{address}/") as connection:
        yield await connection.channel()


CASES: dict[str, Load] = {
    case.__name__: on_loop(case) for case in (awaited_256, send_one, async_handler, async_latency)
}

"""nats-py: the asyncio client of NATS, with JetStream."""

import asyncio
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats
from nats.js import JetStreamContext

from benches.lib.measured import (
    BODY,
    IN_FLIGHT,
    LIST,
    ROUND_SECONDS,
    Backlog,
    Figures,
    Load,
    Measured,
    Spans,
    awaited,
    lots,
    on_loop,
)

SUBJECT = "sends"
BACKLOG_SUBJECT = "backlog"
LATENCY_SUBJECT = "latency"
FETCH_SECONDS = 5.0


@asynccontextmanager
async def _connected(address: str, subject: str) -> AsyncIterator[JetStreamContext]:
    """JetStream with a stream of the subject, in files."""
    connection = await nats.connect(f"nats://{address}")
    try:
        jetstream = connection.jetstream()
        await jetstream.add_stream(name=subject, subjects=[subject])
        yield jetstream
    finally:
        await connection.close()


async def fill(address: str, count: int) -> Figures:
    """Make the backlog."""
    async with _connected(address, BACKLOG_SUBJECT) as jetstream:
        measured = Measured()
        measured.begin()
        for lot in lots(count, IN_FLIGHT, math.inf):
            sent = [await jetstream.publish_async(BACKLOG_SUBJECT, BODY) for _ in lot]
            await asyncio.gather(*sent)
        return measured.end(count)


async def awaited_256(address: str, count: int) -> Figures:
    """`publish` in 256 tasks."""
    async with _connected(address, SUBJECT) as jetstream:
        return await awaited(lambda: jetstream.publish(SUBJECT, BODY), count)


async def send_one(address: str, count: int) -> Figures:
    """`publish`, one at a time."""
    async with _connected(address, SUBJECT) as jetstream:
        return await awaited(lambda: jetstream.publish(SUBJECT, BODY), count, 1)


async def async_handler(address: str, count: int) -> Figures:
    """`subscribe` with a callback; the client acknowledges each message."""
    backlog, done = Backlog(count, ROUND_SECONDS), asyncio.Event()

    async def handle(message: Any) -> None:
        if backlog.done.is_set():
            return
        len(message.data)
        backlog.take(1)
        if backlog.done.is_set():
            done.set()

    async with _connected(address, BACKLOG_SUBJECT) as jetstream:
        await jetstream.subscribe(BACKLOG_SUBJECT, durable=_durable(), cb=handle)
        await done.wait()
    return backlog.figures


async def lists(address: str, count: int) -> Figures:
    """`fetch(500)`; the program acknowledges each message, as the client wants it."""
    backlog = Backlog(count, ROUND_SECONDS)
    async with _connected(address, BACKLOG_SUBJECT) as jetstream:
        subscription = await jetstream.pull_subscribe(BACKLOG_SUBJECT, _durable())
        while not backlog.done.is_set():
            messages = await subscription.fetch(LIST, timeout=FETCH_SECONDS)
            for message in messages:
                len(message.data)
                await message.ack()
            backlog.take(len(messages))
    return backlog.figures


async def async_latency(address: str, count: int) -> Figures:
    """From `publish` to the callback of `subscribe` on one loop."""
    spans = Spans()

    async def handle(message: Any) -> None:
        spans.add(message.data)

    async with _connected(address, LATENCY_SUBJECT) as jetstream:
        start = nats.js.api.DeliverPolicy.NEW
        await jetstream.subscribe(LATENCY_SUBJECT, cb=handle, deliver_policy=start)
        return await spans.measure_async(
            lambda body: jetstream.publish(LATENCY_SUBJECT, body), count
        )


def _durable() -> str:
    return f"peers-{time.monotonic_ns()}"


CASES: dict[str, Load] = {
    case.__name__: on_loop(case)
    for case in (fill, awaited_256, send_one, async_handler, lists, async_latency)
}

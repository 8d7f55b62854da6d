"""redis-py: Redis Streams, read by a consumer group, blocking and with asyncio."""

import asyncio
import math
import threading
import time
from collections.abc import Callable
from typing import Any

from redis import Redis
from redis.asyncio import Redis as AsyncRedis

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
    in_lots,
    lots,
    threaded,
)

STREAM = "sends"
BACKLOG_STREAM = "backlog"
LATENCY_STREAM = "latency"
READ = 100
"""Messages that one read asks for, for a handler of one message."""
BLOCK_MS = 100


def fill(address: str, count: int) -> Figures:
    """Make the backlog."""
    redis = Redis.from_url(f"redis://{address}")
    measured = Measured()
    measured.begin()
    for lot in lots(count, LIST, math.inf):
        pipeline = redis.pipeline(transaction=False)
        for _ in lot:
            pipeline.xadd(BACKLOG_STREAM, {"body": BODY})
        pipeline.execute()
    return measured.end(count)


def send_one(address: str, count: int) -> Figures:
    """`xadd`, one at a time."""
    redis = _emptied(address)
    return in_lots(lambda: redis.xadd(STREAM, {"body": BODY}), count)


def in_threads(address: str, count: int) -> Figures:
    """`xadd` in 64 threads of one client."""
    redis = _emptied(address)

    def work(each: int) -> int:
        sent = 0
        for lot in lots(each, 8):
            for _ in lot:
                redis.xadd(STREAM, {"body": BODY})
            sent += len(lot)
        return sent

    return threaded(work, count)


def awaited_256(address: str, count: int) -> Figures:
    """`xadd` of redis.asyncio in 256 tasks."""
    _emptied(address)

    async def run() -> Figures:
        async with AsyncRedis.from_url(f"redis://{address}", max_connections=IN_FLIGHT) as redis:
            return await awaited(lambda: redis.xadd(STREAM, {"body": BODY}), count)

    return asyncio.run(run())


def handler(address: str, count: int) -> Figures:
    """Reads of 100, a plain function for each message, and one acknowledgement a read."""
    return _read(address, count, READ)


def lists(address: str, count: int) -> Figures:
    """Reads of 500, and one acknowledgement a read."""
    return _read(address, count, LIST)


def _read(address: str, count: int, at_once: int) -> Figures:
    backlog = Backlog(count, ROUND_SECONDS)

    def handle(fields: dict[bytes, bytes]) -> None:
        len(fields[b"body"])

    redis = Redis.from_url(f"redis://{address}")
    group = _group(redis, BACKLOG_STREAM, "0")
    while not backlog.done.is_set():
        backlog.take(_read_once(redis, BACKLOG_STREAM, group, at_once, handle))
    return backlog.figures


def _read_once(
    redis: Any, stream: str, group: str, at_once: int, handle: Callable[[dict[bytes, bytes]], None]
) -> int:
    """Read, handle and acknowledge up to `at_once` messages; returns their number."""
    read = redis.xreadgroup(group, "reader", {stream: ">"}, count=at_once, block=BLOCK_MS)
    if not read:
        return 0
    [(_, messages)] = read
    for _, fields in messages:
        handle(fields)
    redis.xack(stream, group, *(name for name, _ in messages))
    return len(messages)


def latency(address: str, count: int) -> Figures:
    """From `xadd` to a thread that reads."""
    redis, ended, spans = Redis.from_url(f"redis://{address}"), threading.Event(), Spans()
    group = _group(redis, LATENCY_STREAM, "$")

    def read() -> None:
        while not ended.is_set():
            _read_once(redis, LATENCY_STREAM, group, READ, lambda found: spans.add(found[b"body"]))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        return spans.measure(lambda body: redis.xadd(LATENCY_STREAM, {"body": body}), count)
    finally:
        ended.set()
        reader.join()


def _emptied(address: str) -> Any:
    """A client, after the messages of earlier rounds were deleted: they are kept in memory."""
    redis = Redis.from_url(f"redis://{address}")
    redis.delete(STREAM)
    return redis


def _group(redis: Any, stream: str, start: str) -> str:
    group = f"peers-{time.monotonic_ns()}"
    redis.xgroup_create(stream, group, start, mkstream=True)
    return group


CASES: dict[str, Load] = {
    case.__name__: case
    for case in (fill, send_one, in_threads, awaited_256, handler, lists, latency)
}

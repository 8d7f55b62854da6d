"""Asks servers several questions at a time."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

__all__ = ["AT_ONCE", "in_parallel"]

T = TypeVar("T")
AT_ONCE = 32
"""Most requests in flight, so that no server is flooded."""


async def in_parallel(ask: Callable[[T], Awaitable[object]], items: Iterable[T]) -> None:
    """Await `ask(item)` for each item, `AT_ONCE` at a time. Raises the first error at once."""
    waiting = list(items)
    left = iter(waiting)

    async def work() -> None:
        for item in left:
            await ask(item)

    workers = [asyncio.ensure_future(work()) for _ in waiting[:AT_ONCE]]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)

"""Work on an event loop that SIGINT or SIGTERM ends; see `mqcommon.signals`."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from mqcommon.signals import catching_signals

__all__ = ["run_until_signal", "until_signal"]


async def until_signal(
    others: Iterable[asyncio.Event], begin: Callable[[], Awaitable[None]]
) -> None:
    """Await `begin()` with signals caught, then a signal, or one of other events.

    The loop must run on the main thread for signals.
    """
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    with catching_signals(lambda _number: loop.call_soon_threadsafe(event.set)):
        await begin()
        waits = [loop.create_task(one.wait()) for one in (event, *others)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()


async def run_until_signal(
    work: Coroutine[Any, Any, None],
    finish: Callable[[bool], Coroutine[Any, Any, None]],
    commit: Callable[[], Awaitable[None]],
) -> int:
    """Run `work`, then `finish`, then `commit`; the last two also after an error or a signal.

    finish: gets True after a signal. A signal ends the work, a second one also cancels `finish`.
    Returns the exit code: 0, or 128 plus the signal's number. Raises the work's error, otherwise
    the error of `finish`.
    """
    loop = asyncio.get_running_loop()
    signals: list[int] = []
    tasks = [asyncio.ensure_future(work)]

    def note(number: int) -> None:
        signals.append(number)
        loop.call_soon_threadsafe(tasks[-1].cancel)

    with catching_signals(note):
        try:
            try:
                await _unless(signals, tasks[-1])
            finally:
                tasks.append(asyncio.ensure_future(finish(bool(signals))))
                await _unless(signals, tasks[-1])
        finally:
            await commit()
    return 128 + signals[0] if signals else 0


async def _unless(signals: list[int], task: asyncio.Future[None]) -> None:
    """Await a task; a signal that cancelled it is no error."""
    try:
        await task
    except asyncio.CancelledError:
        if not signals:
            raise

"""Work that Ctrl-C or SIGTERM ends in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from mqclient.engine.signals import catching_signals

__all__ = ["run_until_signal"]


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

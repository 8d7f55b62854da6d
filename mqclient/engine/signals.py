"""Runs until SIGINT or SIGTERM; sets handlers on the main thread only, and restores them."""

import asyncio
import contextlib
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator

__all__ = ["catching_signals", "is_real_interrupt", "until_signal"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


async def until_signal(other: asyncio.Event, begin: Callable[[], Awaitable[None]]) -> None:
    """Await `begin()` with signals caught, then a signal, or another event.

    The loop must run on the main thread for signals.
    """
    loop = asyncio.get_running_loop()
    event = asyncio.Event()
    with catching_signals(lambda _number: loop.call_soon_threadsafe(event.set)):
        await begin()
        waits = [loop.create_task(event.wait()), loop.create_task(other.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in waits:
                task.cancel()


def is_real_interrupt(error: BaseException) -> bool:
    """Whether Python raised this error for Ctrl-C in unrelated code, so that it must propagate.

    `asyncio.run` replaces that handler: a KeyboardInterrupt below it was raised by the code itself.
    """
    return (
        isinstance(error, KeyboardInterrupt)
        and threading.current_thread() is threading.main_thread()
        and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    )


@contextlib.contextmanager
def catching_signals(act: Callable[[int], object]) -> Iterator[None]:
    """Call `act` with the number of each SIGINT or SIGTERM; a no-op off the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    try:
        for number in _SIGNALS:
            signal.signal(number, lambda number, _frame: act(number))
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)

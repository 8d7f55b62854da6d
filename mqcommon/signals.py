"""Signals: an event that handlers may set, and what SIGINT and SIGTERM end.

`mqclient.engine.signals` has what runs on an event loop; this module does not import asyncio.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

from mqcommon.cli.exit_codes import INTERRUPTED

__all__ = [
    "SignalSafeEvent",
    "catching_signals",
    "is_real_interrupt",
    "stop_on_signals",
    "until_stopped",
]

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
BURST_S = 0.3
"""Signals within this time after the first one count as one signal."""
SIGNAL_CHECK = 1.0
"""Seconds between checks for a signal: a signal that another thread received ends no wait."""


class SignalSafeEvent:
    """An event that a signal handler may set.

    threading.Event is not safe: a handler that interrupts wait() would wait for wait()'s own lock.
    """

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[None] = queue.SimpleQueue()  # put() is reentrant

    def set(self) -> None:
        """Make every wait() return True from now on."""
        self._inbox.put(None)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until the event is set, at most `timeout` seconds; returns whether it is set."""
        while True:
            try:
                self._inbox.get(timeout=SIGNAL_CHECK if timeout is None else timeout)
            except queue.Empty:
                if timeout is not None:
                    return False
            else:
                self._inbox.put(None)
                return True


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


def stop_on_signals() -> SignalSafeEvent:
    """An event that SIGTERM or Ctrl-C sets; a second signal ends the process at once (130).

    Signals within BURST_S count as one, because `timeout`, for instance, signals both the process
    and its group.
    """
    stopped = SignalSafeEvent()
    first: list[float] = []

    def handle(_number: int, _frame: FrameType | None) -> None:
        if not first:
            first.append(time.monotonic())
            stopped.set()
        elif time.monotonic() - first[0] > BURST_S:
            os._exit(INTERRUPTED)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handle)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # a closed terminal ends no server
    return stopped


@contextlib.contextmanager
def until_stopped() -> Iterator[Callable[[float], bool]]:
    """A function that waits for some seconds and returns whether SIGTERM has arrived.

    The first SIGTERM only sets the flag, which the caller checks between two rounds. A second
    SIGTERM ends the process.
    """
    came = SignalSafeEvent()

    def note(*_: object) -> None:
        came.set()
        signal.signal(signal.SIGTERM, before)

    before = signal.signal(signal.SIGTERM, note)
    try:
        yield came.wait
    finally:
        signal.signal(signal.SIGTERM, before)

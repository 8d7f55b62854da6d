"""An event that signal handlers may set."""

from __future__ import annotations

import queue

__all__ = ["Ending"]

SIGNAL_CHECK = 1.0
"""Seconds between checks for a signal: a signal that another thread received ends no wait."""


class Ending:
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

"""An event that signal handlers may set."""

from __future__ import annotations

import queue

__all__ = ["Ending"]


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
        """Wait up to `timeout` seconds, without one for as long as it takes; True if it is set."""
        try:
            self._inbox.get(timeout=timeout)
        except queue.Empty:
            return False
        self._inbox.put(None)
        return True

"""Runs functions that may block in threads of the client's own.

The executor of the program's event loop may be full of the program's own work, and takes no work
while the interpreter ends, when unclosed clients are still closed.
"""

import asyncio
import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextvars import copy_context
from functools import partial
from typing import Any, ParamSpec, TypeVar

__all__ = ["in_thread"]

P = ParamSpec("P")
R = TypeVar("R")
THREADS_MAX = 256
"""Functions that run at once in a process; further ones wait."""


class _Threads:
    """Threads that end when no function waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Future[Any], Callable[[], Any]]] = deque()
        self._running = 0

    def submit(self, future: "Future[R]", work: Callable[[], R]) -> None:
        """Run a function as soon as there is room; the future gets its outcome."""
        with self._lock:
            self._waiting.append((future, work))
            if self._running == THREADS_MAX:
                return
            self._running += 1
        threading.Thread(target=self._run, name="mqclient-function", daemon=True).start()

    def _run(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._running -= 1
                    return
                future, work = self._waiting.popleft()
            if not future.set_running_or_notify_cancel():
                continue
            try:
                result = work()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(result)
            del future, work  # do not keep a client alive


_threads = _Threads()


def _forget() -> None:
    """Reset the threads in a forked child, which inherits none of them."""
    global _threads
    _threads = _Threads()


os.register_at_fork(after_in_child=_forget)


async def in_thread(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Run a function in a thread and wait for its result, as `asyncio.to_thread` does."""
    future: Future[R] = Future()
    _threads.submit(future, partial(copy_context().run, function, *args, **kwargs))
    return await asyncio.wrap_future(future)

"""An asyncio loop on its own thread, which runs the blocking faces."""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from mqclient.errors import ClosedError
from mqclient.process import process_id

__all__ = ["LoopThread"]

R = TypeVar("R")
SIGNAL_CHECK = 0.5
"""Seconds between checks for a signal: one that comes just before the wait does not end it."""


class LoopThread:
    """Runs coroutines for blocking callers, on a daemon thread. Each client has its own.

    It detects a fork: the child has no such thread, so every use there is a ClosedError.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._pid = process_id()
        self._over = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()
        self._ident = self._thread.ident

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            try:
                self._loop.run_until_complete(self._cancel_all())
                self._loop.run_until_complete(self._loop.shutdown_asyncgens())
                self._loop.close()
            finally:
                self._over = True

    async def _cancel_all(self) -> None:
        """Cancel the tasks of a client that was never closed."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def usable(self) -> bool:
        """False after stop() and in a forked child."""
        return not self._over and self._pid == process_id()

    def submit(self, work: Coroutine[Any, Any, R]) -> "concurrent.futures.Future[R]":
        """Start a coroutine, return its future. Raises ClosedError after stop() or a fork."""
        if not self.usable:
            work.close()
            raise ClosedError(self._why())
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine to its end and return its result.

        Interrupting the wait (Ctrl-C) cancels the coroutine. Raises its errors, and ClosedError
        on the loop's own thread, where the wait would never end.
        """
        try:
            self.check_caller()
        except ClosedError:
            work.close()
            raise
        future = self.submit(work)
        try:
            while not future.done():
                with contextlib.suppress(TimeoutError):
                    return future.result(SIGNAL_CHECK)
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def check_caller(self) -> None:
        """Raise ClosedError on the loop's own thread, after stop(), and after a fork."""
        if threading.get_ident() == self._ident:
            raise ClosedError(
                "a blocking call inside a callback of the same client would wait for itself; "
                "use mqclient.aio there, or another thread"
            )
        if not self.usable:
            raise ClosedError(self._why())

    def call(self, function: Any, *arguments: Any) -> Any:
        """Run a plain function on the loop and return its result."""

        async def work() -> Any:
            return function(*arguments)

        return self.run(work())

    def stop(self) -> None:
        """Stop the loop and wait for its thread; in a forked child there is nothing to stop."""
        if not self.usable:
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        if threading.get_ident() != self._ident:
            self._thread.join(5.0)

    def _why(self) -> str:
        if self._pid != process_id():
            return (
                f"this client was started in process {self._pid} and cannot be used in the "
                f"forked process {process_id()}; make a new one after the fork"
            )
        return "this client is closed; make a new one"

"""The asyncio loop on a thread that runs the blocking faces of one process."""

import asyncio
import concurrent.futures
import contextlib
import functools
import logging
import os
import queue
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar, cast

from mqclient.consumer.context import is_async
from mqclient.engine.process import forked, process_id
from mqclient.errors import ClosedError

__all__ = ["CallbackThread", "LoopThread", "result_of"]

R = TypeVar("R")
log = logging.getLogger(__name__)
SIGNAL_CHECK = 0.5
"""Seconds between checks for a signal: a signal just before the wait does not interrupt it."""
F = TypeVar("F", bound=Callable[..., Any])
STOP_TIMEOUT_S = 5.0
"""Seconds that the end of a loop may take, at most."""


def result_of(future: "concurrent.futures.Future[R]") -> R:
    """Wait for a result; interrupting the wait (Ctrl-C) cancels the work."""
    try:
        while not future.done():
            with contextlib.suppress(TimeoutError):
                return future.result(SIGNAL_CHECK)
        return future.result()
    except BaseException:
        future.cancel()
        raise


class _Loop:
    """A running asyncio loop and its daemon thread."""

    def __init__(self, name: str) -> None:
        self.loop = asyncio.new_event_loop()
        self.users: set[LoopThread] = set()
        self.is_over = False
        """Whether the thread has ended, or is about to."""
        self._is_stopping = False
        self._thread = threading.Thread(target=self._serve, name=name, daemon=True)
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    @property
    def is_here(self) -> bool:
        """Whether the caller runs on this loop's thread."""
        return threading.get_ident() == self._thread.ident

    def _serve(self) -> None:
        asyncio.set_event_loop(self.loop)
        try:
            while not self._is_stopping:
                self._run()
        finally:
            with _lock:
                self.is_over = True
                self.lost()
            self.loop.run_until_complete(self._cancel_all())
            self.loop.run_until_complete(self.loop.shutdown_asyncgens())
            self.loop.close()

    def _run(self) -> None:
        """Run until `stop`, or until a callback of a user raises what ends a loop of asyncio."""
        try:
            self.loop.run_forever()
        except (SystemExit, KeyboardInterrupt) as error:  # the waiting caller gets the error too
            log.warning("%r in a callback ends only that callback", error)
        else:
            self._is_stopping = True

    def lost(self) -> None:
        """Tell the clients that the thread serves them no more."""
        for user in self.users:
            user.usable = False

    async def _cancel_all(self) -> None:
        """Cancel the tasks of a client that was never closed."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def stop(self) -> None:
        """Stop the loop, and wait for its thread unless the caller runs on it."""
        self.stop_soon()
        if not self.is_here:
            self._thread.join(STOP_TIMEOUT_S)

    def stop_soon(self) -> None:
        """Stop the loop without waiting for its end."""
        self._is_stopping = True
        if not self.is_over:
            with contextlib.suppress(RuntimeError):  # the loop ended in between
                self.loop.call_soon_threadsafe(self.loop.stop)


class _Call(Generic[R]):
    """A coroutine that a thread waits for.

    There is no lock: a signal handler may interrupt the wait at any place, and may wait for a call
    of its own meanwhile.
    """

    def __init__(self, work: Coroutine[Any, Any, R], undo: Callable[[R], object] | None) -> None:
        self._work = work
        self._undo = undo
        self._task: asyncio.Task[R] | None = None
        self._ended: queue.SimpleQueue[None] = queue.SimpleQueue()
        self.is_left = False
        """Whether the caller has stopped waiting."""

    def begin(self) -> None:
        """On the loop: start the coroutine."""
        if self.is_left:
            self._work.close()
            return
        self._task = asyncio.get_running_loop().create_task(self._work)
        self._task.add_done_callback(self._end)

    def _end(self, task: "asyncio.Task[R]") -> None:
        if not task.cancelled():
            task.exception()  # the waiting thread raises it; do not warn if that has left
        self._ended.put(None)

    def wait(self, loop: _Loop) -> R:
        """Wait for the result. Raises ClosedError if the loop's thread ends before."""
        _wait(self._ended, loop)
        assert self._task is not None
        return self._task.result()

    def leave(self, loop: _Loop) -> None:
        """Cancel the coroutine, or undo its effect; returns when that has happened."""
        self.is_left = True
        is_undone: queue.SimpleQueue[None] = queue.SimpleQueue()
        with contextlib.suppress(RuntimeError, ClosedError):  # the loop is closed, or ends
            loop.loop.call_soon_threadsafe(self._leave, is_undone)
            _wait(is_undone, loop)

    def _leave(self, is_undone: "queue.SimpleQueue[None]") -> None:
        task = self._task
        try:
            if task is None:
                self._work.close()
            elif not task.done():
                task.cancel()
            elif self._undo is not None and not task.cancelled() and task.exception() is None:
                self._undo(task.result())
        finally:
            is_undone.put(None)


def _wait(event: "queue.SimpleQueue[None]", loop: _Loop) -> None:
    """Wait for an action of the loop. Raises ClosedError if the loop's thread ends first."""
    while True:
        try:
            return event.get(timeout=SIGNAL_CHECK)
        except queue.Empty:
            if not loop.is_alive:
                raise ClosedError("the thread of this client ended; see the log") from None


_lock = threading.RLock()  # a signal handler may close a client while another starts
_shared: _Loop | None = None
"""The loop of all blocking clients of this process, while there is one."""


def _forget() -> None:
    """In a forked child: it has no such thread, and another thread may have held the lock."""
    global _lock, _shared
    if _shared is not None:
        _shared.lost()
    _lock, _shared = threading.RLock(), None


os.register_at_fork(after_in_child=_forget)


def _take(user: "LoopThread") -> _Loop:
    global _shared
    with _lock:
        if _shared is None or _shared.is_over:
            _shared = _Loop("mqclient-loop")
        _shared.users.add(user)
        return _shared


def _give_back(user: "LoopThread", loop: _Loop) -> None:
    """The last user stops the loop."""
    global _shared
    with _lock:
        loop.users.discard(user)
        if loop.users:
            return
        if _shared is loop:
            _shared = None
    loop.stop()


class LoopThread:
    """A blocking client's use of the loop thread, which all clients of the process share.

    The thread starts with the first client and ends with the last one. It detects a fork: the
    child has no such thread, so every use there is a ClosedError.
    """

    def __init__(self) -> None:
        self._pid = process_id()
        self.usable = True
        """False after stop(), after the end of the thread, and in a forked child."""
        self._shared = _take(self)
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def is_busy(self) -> bool:
        """Whether coroutines of this client run, apart from this check."""
        return self.usable and bool(self.call(lambda: len(self._tasks) > 1))

    def submit(self, work: Coroutine[Any, Any, R]) -> "concurrent.futures.Future[R]":
        """Start a coroutine, return its future. Raises ClosedError after stop() or a fork."""
        if not self.usable:
            work.close()
            raise ClosedError(self._why())
        return asyncio.run_coroutine_threadsafe(self._tracked(work), self._shared.loop)

    async def _tracked(self, work: Coroutine[Any, Any, R]) -> R:
        """Run a coroutine until its end, or until stop()."""
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await work
        except asyncio.CancelledError:
            if not self.usable:
                raise ClosedError(self._why()) from None
            raise
        finally:
            self._tasks.discard(task)

    def run(self, work: Coroutine[Any, Any, R], undo: Callable[[R], object] | None = None) -> R:
        """Run a coroutine to its end and return its result.

        Interrupting the wait (Ctrl-C) cancels the coroutine, or calls `undo` with its result on the
        loop if it has one already. Raises its errors, and ClosedError on the loop's own thread,
        because the wait would never end there.
        """
        try:
            self.check_caller()
        except ClosedError:
            work.close()
            raise
        loop, call = self._shared.loop, _Call(self._tracked(work), undo)
        try:
            loop.call_soon_threadsafe(call.begin)
            return call.wait(self._shared)
        except BaseException:
            call.leave(self._shared)
            raise

    def check_caller(self) -> None:
        """Raise ClosedError on the loop's own thread, after stop(), and after a fork."""
        if self._shared.is_here:
            raise ClosedError(
                "a blocking call on the thread that all clients of this process share would wait "
                "for itself; use mqclient.aio there, or another thread"
            )
        if not self.usable:
            raise ClosedError(self._why())

    def call(self, function: Any, *arguments: Any) -> Any:
        """Run a plain function on the loop and return its result."""

        async def work() -> Any:
            return function(*arguments)

        return self.run(work())

    def stop(self) -> None:
        """End the coroutines of this client with ClosedError, and leave the thread.

        The last client waits for the end of the thread. In a forked child there is nothing to
        stop. May be called twice.
        """
        if not self.usable:
            return
        self.usable = False
        if not self._shared.is_here:
            ended = asyncio.run_coroutine_threadsafe(self._end_tasks(), self._shared.loop)
            concurrent.futures.wait([ended], STOP_TIMEOUT_S)
        _give_back(self, self._shared)

    def stop_after(
        self, work: Coroutine[Any, Any, object], timeout: float
    ) -> "concurrent.futures.Future[None]":
        """Let accepted work end, run a last coroutine, then stop; for a client that was not closed.

        timeout: seconds for the accepted work. Returns at once; the future is done at the end.
        """

        async def last() -> None:
            try:
                if timeout and self._tasks:
                    await asyncio.wait(tuple(self._tasks), timeout=timeout)
                await self._tracked(work)
            finally:
                self.usable = False
                await self._end_tasks()
                _give_back(self, self._shared)

        return asyncio.run_coroutine_threadsafe(last(), self._shared.loop)

    async def _end_tasks(self) -> None:
        tasks = [*self._tasks]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _why(self) -> str:
        if self._pid != process_id():
            return forked(self._pid)
        return "this client is closed; make a new one"


class CallbackThread:
    """Runs the `async def` callbacks of one blocking client on a loop and a thread of their own.

    A callback that blocks therefore delays no other client. The thread starts with the first call.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.RLock()  # a signal handler may stop it while another call does
        self._own: _Loop | None = None
        self._over = False

    def wrap(self, function: F) -> F:
        """Wrap an `async def` function to run on the loop thread; keep other functions."""
        if not is_async(function):
            return function

        @functools.wraps(function)
        async def there(*arguments: Any) -> Any:
            return await asyncio.wrap_future(self.submit(function(*arguments)))

        return cast(F, there)

    def wrap_optional(self, function: F | None) -> F | None:
        """`wrap` of a function that may be missing."""
        return None if function is None else self.wrap(function)

    def submit(self, work: Coroutine[Any, Any, R]) -> "concurrent.futures.Future[R]":
        """Start a coroutine on the loop thread, return its future; ClosedError after stop()."""
        with self._lock:
            if self._over:
                work.close()
                raise ClosedError("this client is closed; make a new one")
            if self._own is None:
                self._own = _Loop(self._name)
            return asyncio.run_coroutine_threadsafe(work, self._own.loop)

    def stop(self) -> None:
        """Cancel the callbacks that run, and end the thread."""
        with self._lock:
            self._over = True
            own, self._own = self._own, None
        if own is not None:
            own.stop()

    def __del__(self) -> None:
        if self._own is not None:  # the client was not closed
            self._own.stop_soon()

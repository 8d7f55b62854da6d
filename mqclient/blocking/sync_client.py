"""The base of every blocking client: it runs an asyncio client on the shared loop thread."""

import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, NoReturn, Self

from mqclient.blocking.derive import BlockingFace, sync
from mqclient.blocking.loop_thread import CallbackThread, LoopThread
from mqclient.blocking.unclosed import close_at_exit, close_unclosed
from mqclient.engine.async_client import AsyncClient
from mqclient.engine.client import State
from mqclient.errors import ClosedError
from mqclient.settings.checks import seconds
from mqcommon.signals import SignalSafeEvent

__all__ = ["SyncClient"]


class SyncClient(BlockingFace):
    """Base of every blocking client: an asyncio client, and the loop that it runs on.

    callbacks: where the client's `async def` callbacks run, if it has some.
    """

    _unclosed_timeout = 0.0
    """Seconds for the work that a client has accepted when it ends without close()."""
    _is_consumer = False
    """Whether it works until it is closed; its work when it ends without close() is the handlers
    that run and the last commit."""

    def __init__(self, client: AsyncClient, callbacks: CallbackThread | None = None) -> None:
        self._async: Any = client
        self._callbacks = callbacks
        self._thread: LoopThread | None = None
        self._lock = threading.RLock()  # a signal handler may close while another call starts
        self._over = SignalSafeEvent()
        self._is_starting = self._is_closed = False

    def start(self) -> None:
        """Start the client; `with` does this too. Raises like the asyncio face's start().

        A client that is started stays so. Of several threads at once one starts it, and the others
        wait.
        """
        self._open(self._async.start)

    def _open(self, begin: Callable[[], Coroutine[Any, Any, object]]) -> None:
        with self._lock:
            starts = self._thread is None
            if starts:
                self._is_starting = True
                self._thread = LoopThread()
            thread = self._running
        if self._is_closed:
            thread.stop()
        try:
            thread.run(begin())
        except BaseException:
            if starts:
                self._thread = None
                thread.stop()
            raise
        if self._unclosed_timeout:
            close_at_exit(self)

    def close(self, timeout: float = 20.0) -> None:
        """Finish running work, leave the brokers, close the connections. May be called twice.

        timeout: seconds to wait for running work. In a forked child it only forgets the client.
        """
        seconds(timeout)
        thread = self._thread
        self._over.set()
        if thread is None:  # a signal handler may interrupt the beginning of start()
            self._is_closed = self._is_starting
        if thread is None or not thread.usable:
            return
        try:
            thread.run(self._async.close(timeout))
        except ClosedError:
            if thread.usable:  # else another call has closed it meanwhile
                raise
        finally:
            thread.stop()
            if self._callbacks is not None:
                self._callbacks.stop()

    def __enter__(self) -> Self:
        self._open(self._async.__aenter__)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> NoReturn:
        kind = type(self).__name__
        raise TypeError(f"mqclient.{kind} needs `with`; mqclient.aio.{kind} has `async with`")

    async def __aexit__(self, *_: object) -> None:
        """Never called; `async with` looks for it before it calls `__aenter__`."""

    def __del__(self) -> None:
        if not sys.is_finalizing():  # else the loop runs no more
            close_unclosed(self)

    def _serve(self) -> None:
        """Start, unless it is started; for `run`."""
        if self._thread is None:
            self.start()

    def _check_serving(self) -> None:
        """Raise RocketMQError if the client can no longer work."""
        self._async._raise_failure()
        if not self._running.usable and not self._over.wait(0):
            raise ClosedError("the client's thread ended; see the log")

    @property
    def _is_busy(self) -> bool:
        thread = self._thread
        return thread is not None and (thread.usable if self._is_consumer else thread.is_busy)

    def _close_soon(self) -> "Future[None] | None":
        thread: LoopThread | None = getattr(self, "_thread", None)
        if thread is None or not thread.usable:
            return None
        limit = self._unclosed_timeout
        # A thread may wait in a consumer's poll for ever: only the close ends that.
        return thread.stop_after(self._async.close(limit), 0.0 if self._is_consumer else limit)

    def __repr__(self) -> str:
        return repr(self._async)

    wait_ready = sync(AsyncClient.wait_ready)

    @property
    def state(self) -> State:
        """ "new", "running", "closing" or "closed"."""
        found: State = self._async.state
        return found

    @property
    def client_id(self) -> str:
        """The id under which brokers know this client; "(not started)" before its start."""
        return str(self._async.client_id)

    def _where(self) -> LoopThread:
        return self._running

    @property
    def _is_new(self) -> bool:
        return self._thread is None

    @property
    def _running(self) -> LoopThread:
        if self._thread is None:
            raise ClosedError("this client is not started; call start() or use `with`")
        return self._thread

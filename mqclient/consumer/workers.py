"""Where handlers run: plain functions in threads, `async def` ones as tasks on the loop.

Both give each outcome to `done(request, outcome)` on the loop; outcome is what the handler
returned, or the exception it raised.
"""

import asyncio
import contextlib
import inspect
import queue
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from mqclient.consumer.context import ConsumeContext, Handler
from mqclient.consumer.process_queue import ProcessQueue
from mqstore.message import ReceivedMessage

__all__ = ["ConsumeRequest", "Workers"]


class ConsumeRequest:
    """One call of a handler: some messages of one queue."""

    __slots__ = ("context", "handler", "held", "messages")

    def __init__(
        self, held: ProcessQueue, messages: list[ReceivedMessage], handler: Handler
    ) -> None:
        self.held = held
        self.messages = messages
        self.handler = handler
        self.context = ConsumeContext(held.queue)


Done = Callable[[ConsumeRequest, Any], None]


class Workers:
    """Runs at most `count` handlers at once, in the order in which they were submitted."""

    def __init__(self, count: int, done: Done) -> None:
        self._count = count
        self._done = done
        self._waiting: deque[ConsumeRequest] = deque()
        self._running = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._threads = _Threads(self._finished)
        self._stopping = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def running(self) -> int:
        """Handlers that run right now."""
        return self._running

    def submit(self, request: ConsumeRequest) -> None:
        """Run a request as soon as there is room; ignored while stopping."""
        if self._stopping:
            return
        if self._running < self._count:
            self._run(request)
        else:
            self._waiting.append(request)

    async def stop(self, timeout: float) -> bool:
        """Start no further handler, wait for those that run; False if some still run then.

        What waited is forgotten: nothing of it was acknowledged, so it is delivered again.
        """
        self._stopping = True
        self._waiting.clear()
        try:
            await asyncio.wait_for(self._idle.wait(), timeout)
            return True
        except TimeoutError:
            for task in self._tasks:
                task.cancel()
            return False
        finally:
            self._threads.stop()

    def _run(self, request: ConsumeRequest) -> None:
        self._running += 1
        self._idle.clear()
        if inspect.iscoroutinefunction(request.handler):
            self._await(request, request.handler(request.messages, request.context))
        else:
            self._threads.submit(request)

    def _await(self, request: ConsumeRequest, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(self._run_task(request, coroutine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run_task(self, request: ConsumeRequest, coroutine: Any) -> None:
        try:
            outcome = await coroutine
        except Exception as error:
            outcome = error
        self._finished(request, outcome)

    def _finished(self, request: ConsumeRequest, outcome: Any) -> None:
        """On the loop: a plain function may have returned a coroutine, which is awaited now."""
        if inspect.isawaitable(outcome):
            self._await(request, outcome)
            return
        self._running -= 1
        self._done(request, outcome)
        while self._waiting and self._running < self._count and not self._stopping:
            self._run(self._waiting.popleft())
        if not self._running:
            self._idle.set()


class _Threads:
    """A pool that starts with its first request and reports back in bunches.

    A bunch costs one wake-up of the loop, however many handlers ended meanwhile.
    """

    def __init__(self, finished: Done) -> None:
        self._finished = finished
        self._inbox: queue.SimpleQueue[ConsumeRequest | None] = queue.SimpleQueue()
        self._outbox: list[tuple[ConsumeRequest, Any]] = []
        self._lock = threading.Lock()  # guards the outbox
        self._threads: list[threading.Thread] = []
        self._in_flight = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, request: ConsumeRequest) -> None:
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        self._in_flight += 1
        if self._in_flight > len(self._threads):
            name = f"mqclient-handler-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._inbox.put(request)

    def stop(self) -> None:
        for _ in self._threads:
            self._inbox.put(None)

    def _work(self) -> None:
        while (request := self._inbox.get()) is not None:
            try:
                outcome: Any = request.handler(request.messages, request.context)
            except BaseException as error:
                outcome = error
            self._report(request, outcome)

    def _report(self, request: ConsumeRequest, outcome: Any) -> None:
        with self._lock:
            self._outbox.append((request, outcome))
            first = len(self._outbox) == 1
        if first and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop was closed without us
                self._loop.call_soon_threadsafe(self._collect)

    def _collect(self) -> None:
        with self._lock:
            done, self._outbox = self._outbox, []
        self._in_flight -= len(done)
        for request, outcome in done:
            self._finished(request, outcome)

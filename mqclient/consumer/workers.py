"""Where handlers run: plain functions in threads, `async def` ones in tasks on the loop.

Both give each outcome to `done(request, outcome)` on the loop; outcome is what the handler
returned, or the exception it raised.
"""

import asyncio
import contextlib
import inspect
import queue
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from mqclient.consumer.context import ConsumeContext, Handler
from mqclient.consumer.process_queue import ProcessQueue
from mqstore.message import ReceivedMessage

__all__ = ["ConsumeRequest", "Workers"]

TURN = 32
"""Handlers that one task runs before it lets others have the loop."""


class ConsumeRequest:
    """One call of a handler: some messages of one queue."""

    __slots__ = ("context", "handler", "held", "messages", "on_loop")

    def __init__(
        self, held: ProcessQueue, messages: list[ReceivedMessage], handler: Handler, on_loop: bool
    ) -> None:
        self.held = held
        self.messages = messages
        self.handler = handler
        self.on_loop = on_loop
        self.context = ConsumeContext(held.queue)

    def call(self) -> Any:
        """Note when the handler gets the messages, and call it."""
        now_ms = time.time_ns() // 1_000_000
        for message in self.messages:
            message.consume_start_ms = now_ms
        return self.handler(self.messages, self.context)


Done = Callable[[ConsumeRequest, Any], None]


class Workers:
    """Runs at most `count` handlers of each kind at once, in the order of submission."""

    def __init__(self, count: int, thread_prefix: str, done: Done) -> None:
        self._done = done
        self._tasks = _Tasks(count, self._finished)
        self._threads = _Threads(count, thread_prefix, self._finished)
        self._in_flight = 0
        self._stopping = False
        self._idle = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """Requests that were submitted and have no outcome yet."""
        return self._in_flight

    def submit(self, request: ConsumeRequest) -> None:
        """Run a request as soon as there is room; ignored while stopping."""
        if self._stopping:
            return
        self._in_flight += 1
        if request.on_loop:
            self._tasks.submit(request, None)
        else:
            self._threads.submit(request)

    async def stop(self, timeout: float) -> bool:
        """Start no further handler, wait for those that run; False if some still run then.

        What waited is forgotten: nothing of it was acknowledged, so it is delivered again.
        """
        self._stopping = True
        self._in_flight -= self._tasks.clear() + self._threads.clear()
        self._settle()
        try:
            async with asyncio.timeout(timeout):
                await self._idle.wait()
            return True
        except TimeoutError:
            return False
        finally:
            self._tasks.stop()
            self._threads.stop()

    def _finished(self, request: ConsumeRequest, outcome: Any) -> None:
        """On the loop: a plain function may have returned a coroutine, which is awaited now."""
        if outcome is not None and inspect.isawaitable(outcome):
            self._tasks.submit(request, outcome)
            return
        self._in_flight -= 1
        self._done(request, outcome)
        if self._stopping:
            self._settle()

    def _settle(self) -> None:
        if not self._in_flight:
            self._idle.set()


class _Tasks:
    """Up to `count` long-lived tasks; each takes the next request when it is done with one."""

    def __init__(self, count: int, finished: Done) -> None:
        self._count = count
        self._finished = finished
        self._waiting: deque[tuple[ConsumeRequest, Awaitable[Any] | None]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._tasks: list[asyncio.Task[None]] = []

    def submit(self, request: ConsumeRequest, begun: Awaitable[Any] | None) -> None:
        """Run a handler, or go on with what one has begun."""
        self._waiting.append((request, begun))
        if self._idle:
            future = self._idle.pop()
            if not future.done():
                future.set_result(None)
        elif len(self._tasks) < self._count:
            self._tasks.append(asyncio.get_running_loop().create_task(self._work()))

    def clear(self) -> int:
        """Forget what waits; returns how much that was."""
        count = len(self._waiting)
        self._waiting.clear()
        return count

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    async def _work(self) -> None:
        turn = 0
        while True:
            if not self._waiting:
                future = asyncio.get_running_loop().create_future()
                self._idle.append(future)
                await future
                continue
            request, begun = self._waiting.popleft()
            try:
                work: Any = begun or request.call()
                outcome: Any = await work
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():  # it is us who are to end
                    raise
                outcome = error
            except Exception as error:
                outcome = error
            self._finished(request, outcome)
            turn = (turn + 1) % TURN
            if not turn:
                await asyncio.sleep(0)


class _Threads:
    """Up to `count` threads, started as needed, that report back in bunches.

    A bunch costs one wake-up of the loop, however many handlers ended meanwhile.
    """

    def __init__(self, count: int, prefix: str, finished: Done) -> None:
        self._count = count
        self._prefix = prefix
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
        if len(self._threads) < min(self._in_flight, self._count):
            name = f"{self._prefix}_{len(self._threads) + 1}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()
        self._inbox.put(request)

    def clear(self) -> int:
        """Forget what waits; returns how much that was."""
        count = 0
        with contextlib.suppress(queue.Empty):
            while True:
                self._inbox.get_nowait()
                count += 1
        return count

    def stop(self) -> None:
        for _ in self._threads:
            self._inbox.put(None)

    def _work(self) -> None:
        while (request := self._inbox.get()) is not None:
            try:
                outcome: Any = request.call()
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

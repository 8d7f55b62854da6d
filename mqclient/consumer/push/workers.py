"""Runs handlers: plain functions in threads, `async def` functions in tasks on the loop.

Both pass each outcome to `done(request, outcome)` on the loop; outcome is the handler's result
or exception.
"""

import asyncio
import inspect
from collections import deque
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

from mqclient.consumer.context import Handler
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.push.calls import ConsumeRequest, Part, Parts, Run
from mqclient.consumer.push.threads import Done, Threads
from mqcommon.message import ReceivedMessage
from mqcommon.signals import is_real_interrupt

__all__ = ["ConsumeRequest", "Workers"]

TURN = 32
"""Handlers that one task runs before it yields to the loop."""
_of_handler: ContextVar["Workers | None"] = ContextVar("_of_handler", default=None)
"""The workers whose handler runs in this thread or task, or in tasks that it starts."""


RunDone = Callable[[ProcessQueue, list[ReceivedMessage], float], None]


class Workers:
    """Runs at most `count` handlers of each kind at once, in the order of submission.

    done: called on the loop after a call. run_done: called on the loop after calls with one message
    each that succeeded, with their queue, their messages and the seconds that they took.
    """

    def __init__(self, count: int, thread_prefix: str, done: Done, run_done: RunDone) -> None:
        self._done = done
        self._run_done = run_done
        self._tasks = _Tasks(count, self._finished, self._enter)
        self._threads = Threads(
            count, thread_prefix, self._finished, self._run_finished, self._enter
        )
        self._in_flight = 0
        self._stopping = False
        self._idle = asyncio.Event()

    @property
    def in_flight(self) -> int:
        """Calls of handlers that were submitted and have no outcome yet."""
        return self._in_flight

    @property
    def calling(self) -> bool:
        """Whether the caller is one of the handlers."""
        return _of_handler.get() is self

    def _enter(self) -> None:
        """Mark a thread or task of handlers, once each, because every call costs time."""
        _of_handler.set(self)

    def submit(
        self,
        held: ProcessQueue,
        messages: list[ReceivedMessage],
        handler: Handler,
        on_loop: bool,
        size: int,
    ) -> None:
        """Call a handler with messages of a queue, `size` of them at a time, as soon as there is
        room; ignored while stopping."""
        if self._stopping:
            return
        part = Part(held, messages, handler, size)
        self._in_flight += part.calls_left
        (self._tasks if on_loop else self._threads).submit(part)

    def forget(self, held: ProcessQueue | None = None) -> int:
        """Start no more handlers for a queue, None means all; returns how many calls waited."""
        removed = self._remove_if(lambda part: held is None or part.held is held)
        begun = self._tasks.forget_begun() if held is None else 0
        self._in_flight -= begun
        return begun + sum(part.calls_left for part in removed)

    def take_back(
        self, unwanted: Callable[[ProcessQueue, ReceivedMessage], bool]
    ) -> list[tuple[ProcessQueue, list[ReceivedMessage]]]:
        """Start no more handlers for some queues and messages, and return these.

        unwanted: gets a queue, and the first of its messages that wait for one handler.
        """
        removed = self._remove_if(lambda part: unwanted(part.held, part.messages[part.at]))
        return [(part.held, part.messages[part.at :]) for part in removed]

    def _remove_if(self, unwanted: Callable[[Part], bool]) -> list[Part]:
        removed = self._tasks.remove_if(unwanted) + self._threads.remove_if(unwanted)
        self._in_flight -= sum(part.calls_left for part in removed)
        return removed

    def quiesce(self) -> None:
        """Start no more handlers.

        The backlog is dropped: it was not acknowledged, so brokers deliver it again.
        """
        self._stopping = True
        self.forget()

    async def stop(self, timeout: float) -> bool:
        """Start no more handlers and wait for the running ones; False if some still run."""
        self.quiesce()
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
        """On the loop: await the coroutine that a plain function may have returned."""
        if outcome is not None and inspect.isawaitable(outcome):
            self._tasks.go_on(request, outcome)
            return
        self._in_flight -= 1
        self._done(request, outcome)
        if self._stopping:
            self._settle()

    def _run_finished(self, run: Run) -> None:
        """On the loop, after calls of a run."""
        handled, others = run.take_ended()
        if handled:
            self._in_flight -= len(handled)
            self._run_done(run.held, handled, run.consume_s)
        for request, outcome in others:
            self._finished(request, outcome)
        if self._stopping:
            self._settle()

    def _settle(self) -> None:
        if not self._in_flight:
            self._idle.set()


class _Tasks:
    """Up to `count` long-lived tasks; each takes the next call when it has finished one.

    One task is woken at a time and wakes the next if there is more to do: while handlers do not
    wait for anything, one task does all of it.
    """

    def __init__(self, count: int, finished: Done, enter: Callable[[], None]) -> None:
        self._count = count
        self._finished = finished
        self._enter = enter
        self._parts = Parts()
        self._begun: deque[tuple[ConsumeRequest, Awaitable[Any]]] = deque()
        self._idle: list[asyncio.Future[None]] = []
        self._coming = False
        self._tasks: list[asyncio.Task[None]] = []

    def submit(self, part: Part) -> None:
        """Run a handler as often as the part has it."""
        self._parts.append(part)
        self._wake_one()

    def go_on(self, request: ConsumeRequest, begun: Awaitable[Any]) -> None:
        """Await the awaitable that a plain function returned."""
        self._begun.append((request, begun))
        self._wake_one()

    def remove_if(self, unwanted: Callable[[Part], bool]) -> list[Part]:
        """Remove the parts that wait and are unwanted, and return them."""
        return self._parts.remove_if(unwanted)

    def forget_begun(self) -> int:
        """Forget what plain functions returned; returns how many calls that were."""
        count = len(self._begun)
        self._begun.clear()
        return count

    def stop(self) -> None:
        for task in self._tasks:
            task.cancel()

    def _wake_one(self) -> None:
        """Wake or start one more task, unless one is about to look for work."""
        if self._coming:
            return
        while self._idle:
            future = self._idle.pop()
            if not future.done():
                future.set_result(None)
                self._coming = True
                return
        if len(self._tasks) < self._count:
            self._tasks.append(asyncio.get_running_loop().create_task(self._work()))
            self._coming = True

    async def _work(self) -> None:
        parts, begun = self._parts, self._begun
        turn = 0
        self._enter()
        self._coming = False
        while True:
            if begun:
                request, work = begun.popleft()
            elif parts:
                request, work = parts.take(), None
            else:
                future = asyncio.get_running_loop().create_future()
                self._idle.append(future)
                await future
                self._coming = False
                continue
            if not self._coming and (parts or begun):
                self._wake_one()
            try:
                outcome: Any = await (request.call() if work is None else work)
            except asyncio.CancelledError as error:
                task = asyncio.current_task()
                if task is None or task.cancelling():  # this task is being cancelled
                    raise
                outcome = error
            except BaseException as error:  # also sys.exit(), which would end the loop
                if is_real_interrupt(error):
                    raise
                outcome = error
            self._finished(request, outcome)
            turn = (turn + 1) % TURN
            if not turn:
                await asyncio.sleep(0)

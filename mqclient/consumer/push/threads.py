"""The threads of plain handlers.

While handlers are short, one thread makes all calls, many for each time that it looks for work, and
reports them together: a second one would only wait for the interpreter, or for a lock of the
handlers. While handlers take longer, each thread that begins a call wakes the next one. A thread
that stays in one call is replaced within milliseconds.
"""

import asyncio
import contextlib
import queue
import threading
from collections.abc import Callable
from time import perf_counter
from typing import Any

from mqclient.consumer.push.calls import ConsumeRequest, Part, Parts, Run

__all__ = ["Done", "RunDone", "Threads"]

SHORT_S = 0.0001
"""A handler that takes less gains nothing from a thread of its own: waking one costs as much."""
LONG_MIN, LONG_MAX = 4, 8
"""Handlers are long from `LONG_MIN` long calls more than short ones on, which count up to
`LONG_MAX`."""
WATCH_S = 0.002
"""Seconds after which a thread that is still in the same call is replaced."""
RUN_S = 0.002
"""Seconds after which a thread reports its calls, though more are left."""

Done = Callable[[ConsumeRequest, Any], None]
RunDone = Callable[[Run], None]


class _Worker:
    """What the others see of a thread. count: calls that it has made, at the last watch `seen`.

    wakes: passes it the next work, or the end, while it is idle. A queue of all threads would wake
    a second one each time, because a `SimpleQueue` wakes the next reader after each `get`.
    """

    __slots__ = ("count", "is_stuck", "run", "seen", "wakes")

    def __init__(self) -> None:
        self.wakes: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.count = self.seen = 0
        self.is_stuck = False
        self.run: Run | None = None


class Threads:
    """Up to `count` threads, started as needed.

    finished, run_finished: called on the loop; a bunch of reports costs one wake-up of it.
    """

    def __init__(
        self,
        count: int,
        prefix: str,
        finished: Done,
        run_finished: RunDone,
        enter: Callable[[], None],
    ) -> None:
        self._count = count
        self._prefix = prefix
        self._finished = finished
        self._run_finished = run_finished
        self._enter = enter
        self._long = LONG_MAX
        self._lock = threading.Lock()  # guards all fields below
        self._parts = Parts()
        self._outbox: list[tuple[ConsumeRequest, Any] | Run] = []
        self._workers: list[_Worker] = []
        self._idle: list[_Worker] = []
        """The thread that was busy last is woken first: its memory is still in the caches."""
        self._busy: set[_Worker] = set()
        self._running = 0
        """Number of the busy ones that are not stuck."""
        self._coming = False
        self._is_watching = False
        self._loop: asyncio.AbstractEventLoop | None = None

    # --- on the loop

    def submit(self, part: Part) -> None:
        """Run a handler as often as the part has it."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
        with self._lock:
            has_more = self._running > 0 or self._coming or part.calls_left > 1
            self._parts.append(part)
            self._wake_one()
        if has_more:
            self._watch_soon()

    def remove_if(self, unwanted: Callable[[Part], bool]) -> list[Part]:
        """Remove the calls that have not begun and are unwanted, and return them."""
        with self._lock:
            self._take_back(lambda _worker: True)
            return self._parts.remove_if(unwanted)

    def stop(self) -> None:
        """Let each thread end after its call."""
        for worker in self._workers:
            worker.wakes.put(False)

    def _watch_soon(self) -> None:
        if not self._is_watching and self._loop is not None:
            self._is_watching = True
            self._loop.call_later(WATCH_S, self._watch)

    def _watch(self) -> None:
        """Replace the threads that have stayed in one call."""
        self._is_watching = False
        stuck: list[Run] = []
        with self._lock:
            for worker in self._busy:
                if worker.count == worker.seen and not worker.is_stuck:
                    worker.is_stuck = True
                    self._running -= 1
                    if worker.run is not None:
                        stuck.append(worker.run)
                worker.seen = worker.count
            self._take_back(lambda worker: worker.is_stuck)
            if self._parts and not self._running:
                self._wake_one()
            again = bool(self._parts) or any(worker.run is not None for worker in self._busy)
        if again:
            self._watch_soon()
        for run in stuck:  # what it has done must not wait for its present call
            self._run_finished(run)

    def _collect(self) -> None:
        with self._lock:
            done, self._outbox = self._outbox, []
        for report in done:
            if isinstance(report, Run):
                self._run_finished(report)
            else:
                self._finished(*report)

    # --- under the lock

    def _take_back(self, from_: Callable[[_Worker], bool]) -> None:
        """Let other threads have the calls of some that have not begun."""
        for worker in self._busy:
            if worker.run is not None and from_(worker) and (part := worker.run.leave()):
                self._parts.appendleft(part)

    def _wake_one(self) -> None:
        """Wake or start a thread, unless those that run, or the one that comes, are enough."""
        if self._coming or (self._running and self._is_short):
            return
        if self._idle:
            self._coming = True
            self._idle.pop().wakes.put(True)
        elif len(self._workers) < self._count:
            worker, name = _Worker(), f"{self._prefix}_{len(self._workers) + 1}"
            thread = threading.Thread(target=self._work, args=(worker,), name=name, daemon=True)
            try:
                thread.start()
            except RuntimeError:  # the system refuses more threads; use the existing ones
                if not self._workers:
                    raise
            else:
                self._workers.append(worker)
                self._coming = True

    # --- in a thread

    @property
    def _is_short(self) -> bool:
        return self._long < LONG_MIN

    def _work(self, worker: _Worker) -> None:
        self._enter()
        work = self._next(worker, arrived=True)
        while True:
            while work is None:
                if not worker.wakes.get():
                    return
                work = self._next(worker, arrived=True)
            if isinstance(work, Run):
                self._make_calls(worker, work)
                work = self._next(worker, work)
            else:
                outcome = self._call(worker, work)
                work = self._next(worker, (work, outcome))

    def _call(self, worker: _Worker, request: ConsumeRequest) -> Any:
        began = perf_counter()
        try:
            outcome: Any = request.call()
        except BaseException as error:
            outcome = error
        worker.count += 1
        self._note(perf_counter() - began)
        return outcome

    def _note(self, took_s: float) -> None:
        """Count a call as long or short. Threads may miss one of another: most calls decide."""
        if took_s < SHORT_S:
            if self._long:
                self._long -= 1
        elif self._long < LONG_MAX:
            self._long += 1

    def _make_calls(self, worker: _Worker, run: Run) -> None:
        """Make the calls of a run until they turn out long, or its time is over."""
        take, call = run.calls.popleft, run.call
        begin = began = perf_counter()
        while True:
            try:
                message = take()
            except IndexError:
                break
            call(message)
            worker.count += 1
            ended = perf_counter()
            if self._long or ended - began >= SHORT_S:  # else there is nothing to count
                self._note(ended - began)
            began = ended
            if ended - begin > RUN_S or self._long >= LONG_MIN:
                break
        run.consume_s = began - begin

    def _next(
        self,
        worker: _Worker,
        done: tuple[ConsumeRequest, Any] | Run | None = None,
        *,
        arrived: bool = False,
    ) -> ConsumeRequest | Run | None:
        """Report finished calls and take the next ones; None if there are none for this thread."""
        with self._lock:
            if arrived:
                self._coming = False
                self._busy.add(worker)
                self._running += 1
            elif worker.is_stuck:
                worker.is_stuck = False
                self._running += 1
            if done is not None:
                self._outbox.append(done)
            first = done is not None and len(self._outbox) == 1
            if isinstance(done, Run) and (rest := done.leave()):
                self._parts.appendleft(rest)
            worker.run = None
            work: ConsumeRequest | Run | None = None
            if self._parts and not (self._is_short and self._running > 1):
                work = self._take(worker)
            if work is None:
                self._busy.discard(worker)
                self._idle.append(worker)
                self._running -= 1
            elif self._parts:
                self._wake_one()
        if first and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed already
                self._loop.call_soon_threadsafe(self._collect)
        return work

    def _take(self, worker: _Worker) -> ConsumeRequest | Run:
        part = self._parts[0]
        if part.size > 1 or not self._is_short or part.calls_left == 1:
            return self._parts.take()
        self._parts.popleft()
        worker.run = run = Run(part)
        return run

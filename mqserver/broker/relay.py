"""Requests to clients, and replies that depend on a client's answer.

No thread waits for a client. The answers of all clients come from one queue, and a client that does
not answer keeps a place in a table until its deadline.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from mqcommon.wire.codes import FrameFlag, ResponseCode
from mqcommon.wire.frame import Frame, decode, encode
from mqserver.runtime.data_plane import PlaneStopped
from mqserver.runtime.processor_api import LATER, Refused, Reply, Request, Response

log = logging.getLogger("mqserver.broker")

Outcome = Frame | Exception
"""The outcome of a request to a client: the client's answer, a ConnectionError, a TimeoutError, or
the error of an answer that cannot be read.
"""
Result = TypeVar("Result")
Done = Callable[[Outcome], None]

THREADS = 4
"""Threads that continue answers; they wait for the store, never for a client."""
WAITING_MAX = 1_024
"""Most questions that wait for clients' answers at a time; further ones are refused."""
REST_S_MAX = 3_600.0
"""Longest wait for the next answer while no question waits for one."""
JOIN_S = 1.0
"""Longest wait for the end of the thread, which ends as soon as it is woken."""


class Clients(Protocol):
    """The methods of `mqserver.runtime.listener.Listener` that the relay uses; documented there."""

    def send(self, connection: int, frame: bytes) -> bool:
        """Send a one-way request."""
        ...

    def ask(self, connection: int, frame: bytes) -> int:
        """Send a request without waiting."""
        ...

    def next_client_reply(self, timeout: float) -> tuple[int, int, bytes | None] | None:
        """The next reply of any client; None if none came. Raises PlaneStopped."""
        ...

    def wake_client_replies(self) -> None:
        """End the wait in `next_client_reply`."""
        ...

    def forget_client_reply(self, connection: int, opaque: int) -> None:
        """Drop a reply that still comes."""
        ...


class _Question(NamedTuple):
    deadline: float
    timeout: float
    done: Done


class Relay:
    """Sends the broker's requests to its clients. Requests to clients are JSON, as RocketMQ's are.

    clock: monotonic seconds. Methods may be called from any thread.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clients: Clients | None = None
        self._clock = clock
        self._lock = threading.Lock()
        self._questions: dict[tuple[int, int], _Question] = {}
        self._look_at = math.inf
        """When to look for late questions: no question has an earlier deadline."""
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="relay")
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="client-replies", daemon=True)

    def start(self, clients: Clients) -> None:
        """Start to serve. clients: the listener."""
        self._clients = clients
        self._thread.start()

    def tell(self, connection: int, request: Frame) -> bool:
        """Send a one-way request; False if the client is gone."""
        oneway = encode(replace(request, flag=int(FrameFlag.ONEWAY)))
        return self._clients is not None and self._clients.send(connection, oneway)

    def ask(self, connection: int, request: Frame, timeout: float, done: Done) -> None:
        """Send a request; `done` is called once, on another thread, within about `timeout` seconds.

        Raises Refused if too many questions wait for answers, or if the broker is stopping.
        """
        if self._stopping.is_set():
            raise Refused(ResponseCode.SERVICE_NOT_AVAILABLE, "the broker is stopping")
        frame, error = encode(request), None
        with self._lock:  # the answer may come before the question is in the table
            if len(self._questions) >= WAITING_MAX:
                remark = f"[OVERLOAD]{WAITING_MAX} requests wait for answers of clients"
                raise Refused(ResponseCode.SYSTEM_BUSY, remark)
            try:
                if self._clients is None:
                    raise ConnectionError("the broker does not serve clients now")
                opaque = self._clients.ask(connection, frame)
                question = _Question(self._clock() + timeout, timeout, done)
                self._questions[connection, opaque] = question
                self._look_not_after(question.deadline)
            except OSError as caught:  # ConnectionError, or BlockingIOError of a full client
                error = caught
        if error is not None:
            self._go_on(done, error)

    def _look_not_after(self, deadline: float) -> None:
        """Make the thread look for late questions at a deadline; needs the lock."""
        if deadline < self._look_at:
            self._look_at = deadline
            assert self._clients is not None
            self._clients.wake_client_replies()

    def later(
        self,
        request: Request,
        connection: int,
        question: Frame,
        timeout: float,
        answer: Callable[[Outcome], Response],
    ) -> Reply:
        """Ask a client, and answer the request once the client has answered or will not.

        answer: makes the reply of the client's answer or of the error; it may raise.
        """
        self.ask(connection, question, timeout, partial(answer_with, request, answer))
        return LATER

    def later_of_all(
        self,
        request: Request,
        questions: list[tuple[int, Frame]],
        timeout: float,
        answer: Callable[[list[Outcome]], Response],
    ) -> Reply:
        """Like `later`, with one question to each of several connections at the same time."""
        if not questions:
            return answer([])
        outcomes: list[Outcome] = [TimeoutError("not asked")] * len(questions)
        left, lock = len(questions), threading.Lock()

        def note(index: int, outcome: Outcome) -> None:
            nonlocal left
            with lock:
                outcomes[index] = outcome
                left -= 1
                is_last = left == 0
            if is_last:
                answer_with(request, answer, outcomes)

        for index, (connection, question) in enumerate(questions):
            try:
                self.ask(connection, question, timeout, partial(note, index))
            except Refused as refused:
                note(index, refused)
        return LATER

    def close(self) -> None:
        """Send no more requests to clients; the waiting ones fail."""
        self._stopping.set()
        if self._clients is not None:
            self._clients.wake_client_replies()
        self._threads.shutdown(wait=False, cancel_futures=True)
        if self._thread.ident is not None:
            self._thread.join(JOIN_S)

    def _run(self) -> None:
        """Take answers, and give up late questions, until the broker or the listener stops."""
        assert self._clients is not None
        while not self._stopping.is_set():
            rest_s = min(max(0.0, self._look_at - self._clock()), REST_S_MAX)
            try:
                reply = self._clients.next_client_reply(rest_s)
            except PlaneStopped:
                return
            if reply is not None:
                self._answered(*reply)
            if self._clock() >= self._look_at:
                self._give_up_late()

    def _answered(self, connection: int, opaque: int, frame: bytes | None) -> None:
        with self._lock:
            question = self._questions.pop((connection, opaque), None)
        if question is None:
            return
        outcome: Outcome
        if frame is None:
            outcome = ConnectionError("the client is gone, or its answer is too large")
        else:
            try:
                outcome = decode(frame)
            except ValueError as error:
                outcome = error
        self._go_on(question.done, outcome)

    def _give_up_late(self) -> None:
        now = self._clock()
        with self._lock:
            late = [(key, one) for key, one in self._questions.items() if one.deadline <= now]
            for key, _ in late:
                del self._questions[key]
            deadlines = (question.deadline for question in self._questions.values())
            self._look_at = min(deadlines, default=math.inf)
        assert self._clients is not None
        for key, question in late:
            self._clients.forget_client_reply(*key)
            error = TimeoutError(f"no reply within {question.timeout} s")
            self._go_on(question.done, error)

    def _go_on(self, done: Done, outcome: Outcome) -> None:
        try:
            self._threads.submit(_called, done, outcome)
        except RuntimeError:  # the broker stops, and answers the open questions itself
            log.debug("an answer of a client came after the stop")


def _called(done: Done, outcome: Outcome) -> None:
    try:
        done(outcome)
    except Exception:
        log.exception("cannot continue with a client's answer")


def answer_with(request: Request, answer: Callable[[Result], Response], outcome: Result) -> None:
    """Answer a request with the result of `answer` for an outcome, or with its error."""
    try:
        reply = answer(outcome)
    except Refused as refused:
        reply = refused.response
    except Exception as error:
        log.exception("request %d failed after the client had answered", request.code)
        reply = Response(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
    request.respond(reply.code, reply.remark, reply.fields, reply.body)

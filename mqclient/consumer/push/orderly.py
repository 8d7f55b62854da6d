"""Orderly consumption: one batch of a queue at a time, and nothing passes a message that failed.

Rules: RocketMQ 4.9 `ConsumeMessageOrderlyService`. There a thread keeps to one queue for up to
60 s; here a queue gives way to others after every batch. There a batch is put back whole if one of
its messages cannot be published to the dead-letter queue; here the published ones are not repeated.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

from mqclient.consumer.context import ConsumeContext, ConsumeResult
from mqclient.consumer.offset_store import MemoryOffsets
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.push.calls import ConsumeRequest
from mqclient.consumer.push.send_back import SendBack, original_topic
from mqclient.consumer.push.service import ConsumeService
from mqclient.consumer.statistics import ConsumerStatistics
from mqclient.consumer.subscription import Subscription
from mqclient.engine.namespace import Namespace
from mqclient.settings.consumers import PushOptions
from mqcommon.message import ReceivedMessage
from mqcommon.names import RETRY_PREFIX

__all__ = ["OrderlyService"]

log = logging.getLogger(__name__)
SUSPEND_MIN, SUSPEND_MAX = 0.01, 30.0
"""Least and most seconds that a queue waits after a failure."""

_FAILURES = (
    ConsumeResult.RECONSUME_LATER,
    ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT,
    ConsumeResult.ROLLBACK,
)


class _Line:
    """The messages of one queue on their way to the handler."""

    __slots__ = (
        "after",
        "before",
        "ended",
        "gathering",
        "held",
        "idle",
        "is_due",
        "of_retries",
        "timer",
        "uncommitted",
        "waiting",
    )

    def __init__(self, held: ProcessQueue) -> None:
        self.held = held
        self.of_retries = held.queue.topic.startswith(RETRY_PREFIX)
        """Whether each message may be for another handler."""
        self.waiting: deque[ReceivedMessage] = deque()
        self.uncommitted: list[ReceivedMessage] = []
        """Handled with auto_commit off, before the handler's next COMMIT."""
        self.idle = asyncio.Event()
        """Set while no batch is with the handler."""
        self.idle.set()
        self.timer: asyncio.TimerHandle | None = None
        """Ends the wait after a failure."""
        self.gathering: asyncio.TimerHandle | None = None
        """Ends the wait for more messages."""
        self.is_due = False
        """Whether that wait is over."""
        self.ended = False
        self.before: _Line | None = None
        """The same queue's line from before a seek: its running batch must end first."""
        self.after: _Line | None = None
        """The line that waits for this one."""

    @property
    def is_free(self) -> bool:
        """Whether no batch of the queue is with the handler."""
        return self.idle.is_set() and (self.before is None or self.before.is_free)

    def take(self, size: int) -> list[ReceivedMessage]:
        """The next messages, at most `size`."""
        waiting = self.waiting
        return [waiting.popleft() for _ in range(min(size, len(waiting)))]

    def cancel_timers(self) -> None:
        for timer in (self.timer, self.gathering):
            if timer is not None:
                timer.cancel()


class OrderlyService(ConsumeService):
    """Consumes each queue in order. A queue moves on only while its lock is ours."""

    _results = frozenset(ConsumeResult)

    def __init__(
        self,
        settings: PushOptions,
        subscription_of: Callable[[str], Subscription | None],
        offsets: MemoryOffsets,
        statistics: ConsumerStatistics,
        send_back: SendBack,
        names: Namespace,
    ) -> None:
        super().__init__(settings, subscription_of, offsets, statistics, send_back, names)
        self._dead_letters = send_back
        self._needs_lock = settings.model == "clustering"
        self._lines: dict[ProcessQueue, _Line] = {}

    def submit(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Consume messages of one queue, after those submitted before."""
        line = self._lines.get(held)
        if line is None:
            line = self._lines[held] = _Line(held)
        if line.of_retries:
            for message in messages:
                message.topic = original_topic(message)
        if self._names:
            self._restore_names(held, messages)
        line.waiting.extend(messages)
        self._next(line)

    def go_on(self, held: ProcessQueue) -> None:
        """Continue a queue, whose lock is ours again."""
        line = self._lines.get(held)
        if line is not None:
            self._next(line)

    def forget(self, held: ProcessQueue) -> None:
        """Start no more handlers of a queue that is given up."""
        line = self._lines.get(held)
        if line is None:
            return
        line.ended = True
        line.cancel_timers()
        if self._workers.forget(held):
            line.idle.set()
        if line.is_free:
            del self._lines[held]

    def after(self, held: ProcessQueue) -> Callable[[ProcessQueue], None]:
        """Before a queue is moved. Returns a function that gets its new process queue, whose
        messages then wait for the end of the running batch."""
        line = self._lines.get(held)
        while line is not None and line.idle.is_set():
            line = line.before

        def then(new: ProcessQueue) -> None:
            if line is not None and not line.idle.is_set():
                self._lines[new] = following = _Line(new)
                following.before, line.after = line, following

        return then

    async def end(self, held: ProcessQueue) -> None:
        """Start no more handlers of a queue, and wait until the running one's result counts."""
        self.forget(held)
        line = self._lines.get(held)
        if line is not None:
            log.info("%s: giving it up after its handler ends", held.queue)
            while line is not None:
                await line.idle.wait()
                line = line.before
            self._lines.pop(held, None)

    def pause(self, held: ProcessQueue) -> None:
        """Do nothing: `_next` starts no handler of a paused queue."""

    def resume(self, held: ProcessQueue) -> None:
        """Continue a paused queue."""
        self.go_on(held)

    async def give_back_stuck(self, queues: Iterable[ProcessQueue]) -> None:
        """Do nothing: a message whose handler is stuck keeps its queue waiting."""

    def is_idle(self, held: ProcessQueue) -> bool:
        """Whether no message of a queue is with the handler."""
        line = self._lines.get(held)
        return line is None or line.is_free

    async def stop(self, timeout: float) -> bool:
        """Let running handlers end, and messages that failed too often reach the brokers."""
        for line in self._lines.values():
            line.cancel_timers()
        ended = await super().stop(timeout)
        if ended:  # the others were still waiting for a thread
            for line in self._lines.values():
                line.idle.set()
        return ended

    def _next(self, line: _Line) -> None:
        """Give the next batch to the handler, unless the queue must wait."""
        held = line.held
        if not line.waiting or line.timer is not None or not line.is_free:
            return
        if line.ended or self._stopping or held.paused:
            return
        if self._needs_lock and time.monotonic() >= held.locked_until:
            return
        first = line.waiting[0]
        topic = first.topic if line.of_retries else held.queue.topic
        handler, on_loop, size = self._handler(topic, first)
        if not line.of_retries and not line.is_due and len(line.waiting) < size:
            wait = self._max_wait(topic)
            if wait:
                self._gather(line, wait)
                return
        line.is_due = False
        batch = line.take(1 if line.of_retries else size)
        line.idle.clear()
        self._with_values(topic, batch)
        self._workers.submit(held, batch, handler, on_loop, len(batch))

    def _gather(self, line: _Line, wait: float) -> None:
        """Wait for more messages of a queue, at most `wait` seconds."""

        def due() -> None:
            line.gathering, line.is_due = None, True
            self._next(line)

        if line.gathering is None:
            line.gathering = asyncio.get_running_loop().call_later(wait, due)

    def _done(self, request: ConsumeRequest, outcome: Any) -> None:
        """Acknowledge a batch and start the next one, or handle it again later."""
        held, context = request.held, request.context
        line = self._lines[held]
        result = self._result(request, outcome)
        if held.dropped:  # the lock was lost, or the offset was moved
            line.idle.set()
            self._lines.pop(held, None)
            if line.after is not None:
                line.after.before = None
                self._next(line.after)
            return
        self._note(request, len(request.messages) if result in _FAILURES else 0)
        if result in (ConsumeResult.COMMIT, ConsumeResult.ROLLBACK) and context.auto_commit:
            log.warning("%s without auto_commit = False counts as SUCCESS", result)
            result = ConsumeResult.SUCCESS
        if result is ConsumeResult.SUCCESS and not context.auto_commit:
            line.uncommitted += request.messages
            self._rest(line)
        elif result in (ConsumeResult.SUCCESS, ConsumeResult.COMMIT):
            self._acknowledge(held, self._taken(line, request))
            self._rest(line)
        elif result is ConsumeResult.ROLLBACK:
            self._suspend(line, self._taken(line, request), context)
        elif any(self._dead_letters.is_last(message, 0) for message in request.messages):
            self._send(self._send_to_dlq(line, request))
        else:
            self._count(line, request.messages, context)

    def _taken(self, line: _Line, request: ConsumeRequest) -> list[ReceivedMessage]:
        """The messages of a batch, after the handled messages that are not committed yet."""
        if not line.uncommitted:
            return request.messages
        earlier, line.uncommitted = line.uncommitted, []
        return earlier + request.messages

    async def _send_to_dlq(self, line: _Line, request: ConsumeRequest) -> None:
        """Publish the messages that failed too often for the dead-letter queue."""
        kept = []
        for message in request.messages:
            if line.held.dropped:
                break
            if not self._dead_letters.is_last(
                message, 0
            ) or not await self._dead_letters.send_to_dlq(message):
                kept.append(message)
        keep = set(map(id, kept))
        self._acknowledge(line.held, [m for m in request.messages if id(m) not in keep])
        if kept:
            self._count(line, kept, request.context)
        else:
            self._rest(line)

    def _count(self, line: _Line, messages: list[ReceivedMessage], context: ConsumeContext) -> None:
        """Note that messages failed once more, and handle them again later."""
        for message in messages:
            message.reconsume_times += 1
        self._suspend(line, messages, context)

    def _suspend(
        self, line: _Line, messages: list[ReceivedMessage], context: ConsumeContext
    ) -> None:
        """Handle messages again, before all others of their queue, after a while."""
        line.waiting.extendleft(reversed(messages))
        if not line.ended and not self._stopping:
            loop = asyncio.get_running_loop()
            line.timer = loop.call_later(self._pause(context), self._wake, line)
        line.idle.set()

    def _pause(self, context: ConsumeContext) -> float:
        asked = context.retry_delay
        seconds = self._settings.retry_delay if asked is None else asked
        return min(max(seconds, SUSPEND_MIN), SUSPEND_MAX)

    def _wake(self, line: _Line) -> None:
        line.timer = None
        self._next(line)

    def _rest(self, line: _Line) -> None:
        """Its handler has ended: start the next batch."""
        line.idle.set()
        self._next(line)

    def _fate(self, request: ConsumeRequest) -> str:
        dead = sum(self._dead_letters.is_last(message, 0) for message in request.messages)
        if dead == len(request.messages):
            return self._dead_letters.fate(request.messages, 0)
        pause = self._pause(request.context)
        some = f"{dead} of them go to the dead-letter queue, " if dead else ""
        return f"{some}the queue waits {pause:g} s and handles it again"

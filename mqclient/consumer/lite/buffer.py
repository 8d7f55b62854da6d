"""The pulled messages of a lite pull consumer: bounds, order, and positions.

A caller asks for the next message, or for several. Those it was given are "in hand" until it asks
again; only then, or by a commit, does the position of their queue move past them.
"""

import asyncio
import math
from collections import Counter, deque
from collections.abc import Iterable

from mqclient.consumer.flow_control import too_much_held
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.settings.consumers import LitePullOptions
from mqcommon.message import MessageQueue, ReceivedMessage

__all__ = ["LiteBuffer", "LiteQueue"]


class LiteQueue(ProcessQueue):
    """The messages held of one queue, including the ones in hand."""

    __slots__ = ("acknowledged", "front", "room", "waiting_runs")

    def __init__(self, queue: MessageQueue, next_offset: int) -> None:
        super().__init__(queue, next_offset)
        self.acknowledged = 0
        """Offset before which the caller has handled every message that it got since the queue was
        last moved."""
        self.room = asyncio.Event()
        """Set when a paused pull may continue."""
        self.front: _Run | None = None
        """The first held run, once a message of it was handed out."""
        self.waiting_runs: list[_Run] = []
        """Runs that wait for resume(), in order."""

    @property
    def position(self) -> int:
        """Offset of the first message that is not handled yet."""
        front = self.front
        first = self.first_offset if front is None else front.messages[front.hand].queue_offset
        return max(first, self.acknowledged)


class _Run:
    """The messages of one pull. Those before `hand` are handled, those before `at` handed out."""

    __slots__ = ("at", "end", "hand", "held", "messages")

    def __init__(self, held: LiteQueue, messages: list[ReceivedMessage]) -> None:
        self.held = held
        self.messages = messages
        self.hand = self.at = 0
        self.end = len(messages)


class LiteBuffer:
    """All messages that wait for the caller, bounded by queue and in all.

    Used by the loop's thread, except `take`, which another thread may call.
    """

    def __init__(self, settings: LitePullOptions) -> None:
        self._settings = settings
        limits = settings.limits
        self._count_max = math.inf if limits.total_messages is None else limits.total_messages
        self._bytes_max = math.inf if limits.total_bytes is None else limits.total_bytes
        self._nothing = _Run(LiteQueue(MessageQueue("", "", 0), 0), [])
        self._run = self._nothing  # iteration takes from this run
        self._in_hand: list[_Run] = []  # other runs with messages in hand
        self._arrived: deque[_Run] = deque()
        self._waiting: set[LiteQueue] = set()
        self._count = self._bytes = 0
        self._news = asyncio.Event()
        self._asking = False
        self._closed = False
        self._error: Exception | None = None
        self._metrics = settings.metrics

    # --- pulling

    def add(self, held: LiteQueue, messages: list[ReceivedMessage], size: int) -> None:
        """Hold pulled messages. size: their bytes, as stored."""
        held.add(messages, size)
        self._count += len(messages)
        self._bytes += size
        self._arrived.append(_Run(held, messages))
        self._news.set()

    def fail(self, error: Exception) -> None:
        """Raise an error for the caller's next question that no held message answers."""
        self._error = error
        self._news.set()

    async def room(self, held: LiteQueue) -> None:
        """Wait until a queue may be pulled: it is not paused, and not too much is held."""
        self._waiting.add(held)
        try:
            while self._is_full(held):
                held.room.clear()
                await held.room.wait()
        finally:
            self._waiting.discard(held)

    def _is_full(self, held: LiteQueue) -> bool:
        return (
            held.paused
            or self._count > self._count_max
            or self._bytes > self._bytes_max
            or too_much_held(held, self._settings) is not None
        )

    def _wake_pulls(self) -> None:
        for held in self._waiting:
            if not self._is_full(held):
                held.room.set()

    # --- handing out

    def take(self) -> ReceivedMessage | None:
        """The next message of the current run; None when `next` must find another."""
        run = self._run
        at = run.at
        if at == run.end:
            return None
        run.hand = at
        run.at = at + 1
        return run.messages[at]

    async def next(self) -> ReceivedMessage | None:
        """Wait for the next message; None when the buffer is closed.

        Raises RuntimeError while another task waits, and the error given to `fail`.
        """
        run = await self._next_run()
        if run is None:
            return None
        self._run = run
        return self.take()

    async def take_many(self, count: int, timeout: float) -> list[ReceivedMessage]:
        """Wait `timeout` seconds for a message; return it with those at hand, `count` at most."""
        messages: list[ReceivedMessage] = []
        try:
            async with asyncio.timeout(timeout):
                run = await self._next_run()
        except TimeoutError:
            return messages
        while run is not None:
            run.at = min(run.end, run.at + count - len(messages))
            messages += run.messages[run.hand : run.at]
            self._in_hand.append(run)
            if run.at < run.end:
                self._arrived.appendleft(run)
            if len(messages) == count:
                break
            run = self._pop()
        return messages

    def take_back(self) -> None:
        """Hand out again the messages of the last `next` or `take_many`, before all others."""
        if self._closed:
            return
        run, self._run = self._run, self._nothing
        in_hand, self._in_hand = self._in_hand, []
        given = [one for one in (*in_hand, run) if one.at > one.hand]
        for one in given:
            one.at = one.hand
        self._arrived = deque([*given, *(one for one in self._arrived if one not in given)])
        self._news.set()

    async def _next_run(self) -> _Run | None:
        if self._asking:
            raise RuntimeError(
                "another task or thread asks this consumer for messages already; let one ask and "
                "pass the messages on, for example by a queue"
            )
        self._asking = True
        try:
            self._settle()
            while True:
                run = self._pop()
                if run is not None or self._closed:
                    return run
                if self._error is not None:
                    error, self._error = self._error, None
                    raise error
                self._news.clear()
                await self._news.wait()
        finally:
            self._asking = False

    def _pop(self) -> _Run | None:
        while self._arrived and not self._closed:
            run = self._arrived.popleft()
            held = run.held
            if held.paused:
                held.waiting_runs.append(run)
                continue
            if held.front is None:
                held.front = run
            return run
        return None

    def _settle(self) -> None:
        """Mark the messages in hand as handled, because the caller asks for more."""
        if self._closed:
            return
        run, self._run = self._run, self._nothing
        if 0 < run.at < run.end:
            self._arrived.appendleft(run)
        in_hand, self._in_hand = self._in_hand, []
        for handled in (*in_hand, run):
            handled.hand = handled.at
            if 0 < handled.at == handled.end:
                self._release(handled)
            elif handled.at:
                handled.held.front = handled

    def _release(self, run: _Run) -> None:
        held = run.held
        before = held.bytes_held
        held.remove(run.messages)
        held.front = None
        self._count -= run.end
        self._bytes -= before - held.bytes_held
        if self._metrics is not None:
            self._tell_handled(run.messages)
        self._wake_pulls()

    def tell_rest(self, held: LiteQueue) -> None:
        """Count the handled messages of pulls that are not handled whole, before they are lost."""
        if self._metrics is not None:
            runs = {held.front, self._run, *self._in_hand, *self._arrived, *held.waiting_runs}
            mine = (one for run in runs if run and run.held is held for one in run.messages)
            position = held.position
            self._tell_handled(one for one in mine if one.queue_offset < position)

    def _tell_handled(self, messages: Iterable[ReceivedMessage]) -> None:
        assert self._metrics is not None
        for topic, count in Counter(message.topic for message in messages).items():
            labels = {"group": self._settings.group or "", "topic": topic}
            self._metrics.add("messages_handled", count, labels)

    # --- queues

    def handed_out(self, held: LiteQueue) -> int:
        """Offset of a queue's first message that the caller does not have yet."""
        runs = (self._run, *self._arrived, *held.waiting_runs)
        ahead = [run for run in runs if run.held is held and run.at < run.end]
        return min((run.messages[run.at].queue_offset for run in ahead), default=held.next_offset)

    def pause(self, held: LiteQueue) -> None:
        """Hand out no more of a queue that is paused now."""
        run = self._run
        if run.held is held:
            self._run = self._nothing
            self._in_hand.append(run)
            if run.at < run.end:
                held.waiting_runs.append(run)

    def resume(self, held: LiteQueue) -> None:
        """Continue a queue that is no longer paused."""
        self._arrived.extendleft(reversed(held.waiting_runs))
        held.waiting_runs.clear()
        self._wake_pulls()
        self._news.set()

    def drop(self, held: LiteQueue) -> None:
        """Forget a queue's messages; those in hand stay unhandled. Its position stays readable."""
        if held.dropped:
            return
        self.tell_rest(held)
        held.dropped = True
        self._count -= len(held)
        self._bytes -= held.bytes_held
        if self._run.held is held:
            self._run = self._nothing
        self._in_hand = [run for run in self._in_hand if run.held is not held]
        self._arrived = deque(run for run in self._arrived if run.held is not held)
        self._wake_pulls()

    def close(self) -> None:
        """Hand out nothing more; the caller that waits gets None."""
        self._closed = True
        run, self._run = self._run, self._nothing
        if run.at < run.end:
            self._arrived.appendleft(run)
        self._news.set()

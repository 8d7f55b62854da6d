"""Gathers sends of one topic for a moment, and sends them as batches.

The idea comes from RocketMQ 5 `ProduceAccumulator`, the rules for batches from RocketMQ 4.9
(`MessageBatch.generateFromList`).
"""

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from mqclient.errors import ClientTimeout, ClosedError
from mqclient.producer.outgoing import Outgoing
from mqclient.producer.results import BatchParts, SendResult
from mqclient.producer.sender import Sender
from mqclient.settings.producers import SendOptions
from mqclient.settings.values import Linger
from mqcommon.message import Message, MessageQueue
from mqcommon.names import RETRY_PREFIX

__all__ = ["LingeringBatches"]

ITEM_BYTES = 80
"""Bytes of a message in a batch besides its body and properties: its frame, and its unique id."""
CHARACTER_BYTES_MAX = 4
PLAIN = {"WAIT": "true"}
PLAIN_BYTES = ITEM_BYTES + CHARACTER_BYTES_MAX * len("WAIT true ")
"""The properties of a message that has none of its own, and its bytes besides the body."""
ALONE = (
    *("DELAY", "TIMER_DELIVER_MS", "TIMER_DELAY_SEC", "TIMER_DELAY_MS", "__STARTDELIVERTIME"),
    *("MSG_TYPE", "TRAN_MSG"),
)
"""Properties whose messages cannot be in a batch: delays, replies and half messages."""

Prepare = Callable[[Message | Sequence[Message]], list[Outgoing]]
Outcome = SendResult | int
"""The result of a message, or its place in the batch that was sent."""
Item = tuple[Message, "asyncio.Future[Outcome]"]
Key = tuple[str, MessageQueue | None]
"""A topic, and the queue that its sender gave."""


class _Batch:
    """Messages that wait to be sent together."""

    __slots__ = ("deadline", "items", "parts", "size", "timer", "wait")

    parts: BatchParts
    """Set when the batch is stored, if it has several messages."""

    def __init__(self, deadline: float, wait: str | None) -> None:
        """deadline: on the monotonic clock. wait: the property WAIT of all messages."""
        self.deadline = deadline
        self.wait = wait
        self.items: list[Item] = []
        self.size = 0
        self.timer: asyncio.TimerHandle | None = None

    def result(self, outcome: Outcome) -> SendResult:
        """The result of a message; made only now, when its sender is about to take it.

        The garbage collector would visit the results of all senders that wait for their turn.
        """
        return self.parts.at(outcome) if isinstance(outcome, int) else outcome


class LingeringBatches:
    """The batches of one producer. prepare: makes a message, or several, ready to send.

    Messages leave in the order of `add`. Batches to a given queue leave one after the other, so
    that a retry changes no order.
    """

    def __init__(
        self,
        sender: Sender,
        settings: SendOptions,
        linger: Linger,
        prepare: Prepare,
        check_loop: Callable[[], None],
    ) -> None:
        self._sender = sender
        self._check_loop = check_loop
        self._settings = settings
        self._prepare = prepare
        self._wait_s, self._messages_max = linger.wait, linger.max_messages
        self._bytes_max = min(linger.max_bytes, settings.body_bytes_max)
        compression = settings.compression
        self._compressed_from = sys.maxsize if compression is None else compression.threshold
        self._loop: asyncio.AbstractEventLoop | None = None
        self._open: dict[Key, _Batch] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._hurries = 0
        """Flushes that run; until their end no message waits for others."""
        self._last: dict[Key, asyncio.Task[None]] = {}
        """The last batch in flight to each queue that a send named."""

    def add(
        self, message: Message, queue: MessageQueue | None, timeout: float
    ) -> "tuple[_Batch, asyncio.Future[Outcome]]":
        """Send a message with others of its topic.

        Returns a batch, and the future that gets the error, or what `result` of the batch takes.
        timeout: seconds, the wait for others included. Raises ClosedError on another loop than
        the client's.
        """
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._check_loop()
            self._loop = loop
        key = (message.topic, queue)
        size, deadline = self._size(message), time.monotonic() + timeout
        batch = self._open.get(key)
        if batch is not None and not self._has_room(batch, message, size, deadline):
            self._send_off(key, batch)
            batch = None
        if batch is None:
            batch = self._open[key] = _Batch(deadline, message.properties.get("WAIT"))
            pause = 0.0 if self._hurries else min(self._wait_s, timeout / 2)
            batch.timer = loop.call_later(pause, self._send_off, key, batch)
        future: asyncio.Future[Outcome] = loop.create_future()
        batch.items.append((message, future))
        batch.size += size
        if deadline < batch.deadline:
            batch.deadline = deadline
        if batch.size >= self._bytes_max or len(batch.items) >= self._messages_max:
            self._send_off(key, batch)
        return batch, future

    def _size(self, message: Message) -> int:
        """Most bytes that a message takes in a batch; a full batch if it must leave alone."""
        size = len(message.body)
        properties = message.properties
        if not 0 < size < self._compressed_from or message.topic.startswith(RETRY_PREFIX):
            return self._bytes_max
        if properties == PLAIN:
            return size + PLAIN_BYTES
        if len(properties) > 1 and any(name in properties for name in ALONE):
            return self._bytes_max
        letters = sum(len(name) + len(value) + 2 for name, value in properties.items())
        return size + ITEM_BYTES + CHARACTER_BYTES_MAX * letters

    def _has_room(self, batch: _Batch, message: Message, size: int, deadline: float) -> bool:
        """Whether a message may join; the batch then has the earlier deadline."""
        return (
            batch.size + size <= self._bytes_max
            and -self._wait_s <= batch.deadline - deadline <= self._wait_s
            and batch.wait == message.properties.get("WAIT")
        )

    def _send_off(self, key: Key, batch: _Batch) -> None:
        """Send a batch that is full, or that has waited for long enough."""
        del self._open[key]
        assert batch.timer is not None
        batch.timer.cancel()
        previous = self._last.get(key)
        task = asyncio.get_running_loop().create_task(self._deliver(key, batch, previous))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if key[1] is not None:
            self._last[key] = task

    def _send_all_off(self) -> None:
        for key, batch in list(self._open.items()):
            self._send_off(key, batch)

    @contextmanager
    def hurried(self) -> Iterator[None]:
        """Within the block no message waits for others, those that wait already included."""
        self._hurries += 1
        try:
            self._send_all_off()
            yield
        finally:
            self._hurries -= 1

    async def _deliver(
        self, key: Key, batch: _Batch, previous: "asyncio.Task[None] | None"
    ) -> None:
        items, batch.items = batch.items, []  # senders that take their results keep the batch
        try:
            if previous is not None:
                await asyncio.wait((previous,))
            await self._send(batch, items, key[1])
        except asyncio.CancelledError:
            _fail(items, ClosedError("the producer was closed before the message was sent"))
            raise
        finally:
            if self._last.get(key) is asyncio.current_task():
                del self._last[key]

    async def _send(self, batch: _Batch, items: Sequence[Item], queue: MessageQueue | None) -> None:
        """Send messages of a batch as one; each future gets its outcome, or the error."""
        items = [item for item in items if not item[1].done()]  # else the caller was cancelled
        if not items:
            return
        messages = [message for message, _ in items]
        try:
            (outgoing,) = self._prepare(messages[0] if len(messages) == 1 else messages)
        except (TypeError, ValueError) as error:
            if len(items) == 1:
                _fail(items, error)
                return
            for item in items:  # one of them cannot be sent
                await self._send(batch, [item], queue)
            return
        left = batch.deadline - time.monotonic()
        try:
            if left <= 0:
                raise ClientTimeout("the message was not sent: earlier ones took all its time")
            if queue is None:
                result = await self._sender.send_anywhere(outgoing, left)
            else:
                result = await self._sender.send_to(outgoing, queue, left)
        except Exception as error:
            _fail(items, error)
            return
        if len(items) > 1:
            batch.parts = BatchParts(result, len(items))
        for place, (_, future) in enumerate(items):
            if not future.done():
                future.set_result(place if len(items) > 1 else result)

    async def close(self, timeout: float) -> None:
        """Send waiting messages. timeout: seconds; messages stored later get a ClosedError."""
        self._send_all_off()
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=timeout)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _fail(items: Sequence[Item], error: Exception) -> None:
    for _, future in items:
        if not future.done():
            future.set_exception(error)

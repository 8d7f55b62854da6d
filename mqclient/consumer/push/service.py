"""The common part of concurrent and orderly consumption: workers, handlers, acknowledgement."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

from mqclient.consumer.context import ConsumeResult, Handler
from mqclient.consumer.offset_store import MemoryOffsets
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.push.calls import ConsumeRequest
from mqclient.consumer.push.send_back import SendBack
from mqclient.consumer.push.workers import Workers
from mqclient.consumer.statistics import ConsumerStatistics
from mqclient.consumer.subscription import Subscription
from mqclient.engine.namespace import Namespace
from mqclient.settings.consumers import PushOptions
from mqcommon.message import ReceivedMessage
from mqcommon.names import RETRY_PREFIX

__all__ = ["ConsumeService"]

log = logging.getLogger(__name__)


class ConsumeService(ABC):
    """Runs the handlers of pulled messages.

    subscription_of: the subscription of a topic. send_back: gives failed messages to brokers;
    None in broadcasting.
    """

    _results: frozenset[ConsumeResult]
    """The results that a handler may return."""
    _no_result = "no ConsumeResult"

    def __init__(
        self,
        settings: PushOptions,
        subscription_of: Callable[[str], Subscription | None],
        offsets: MemoryOffsets,
        statistics: ConsumerStatistics,
        send_back: SendBack | None,
        names: Namespace,
    ) -> None:
        self._settings = settings
        self._subscription_of = subscription_of
        self._offsets = offsets
        self._statistics = statistics
        self._send_back = send_back
        self._names = names
        self._workers = Workers(
            settings.threads,
            f"ConsumeMessageThread_{settings.group}",
            self._done,
            self._run_done,
        )
        self._sending: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def calling(self) -> bool:
        """Whether the caller is one of the handlers."""
        return self._workers.calling

    @abstractmethod
    def submit(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Consume messages of one queue; the process queue holds them already."""

    @abstractmethod
    def pause(self, held: ProcessQueue) -> None:
        """Start no more handlers of a queue that is paused now, until `resume`."""

    @abstractmethod
    def resume(self, held: ProcessQueue) -> None:
        """Start handlers again of a queue that is no longer paused."""

    @abstractmethod
    def _done(self, request: ConsumeRequest, outcome: Any) -> None:
        """On the loop, after a handler. outcome: its result or its exception."""

    def _run_done(
        self, held: ProcessQueue, messages: list[ReceivedMessage], consume_s: float
    ) -> None:
        """On the loop, after calls with one message each that succeeded."""
        if not held.dropped:
            count, topic = len(messages), messages[0].topic
            self._add_counts(held, topic, count, round(consume_s * 1000), count)
            self._acknowledge(held, messages)

    @abstractmethod
    def _fate(self, request: ConsumeRequest) -> str:
        """How failed messages are handled next, as the end of a log line."""

    @abstractmethod
    async def give_back_stuck(self, queues: Iterable[ProcessQueue]) -> None:
        """Send back the messages whose handlers exceeded consume_timeout."""

    def forget(self, held: ProcessQueue) -> None:
        """Start no more handlers of a queue that is given up."""
        self._workers.forget(held)

    def unsubscribed(self, topic: str) -> None:
        """Take retry messages of a topic away from its handler, unless it has them already.

        They count as failed, like retries that arrive later: a member that still subscribes to the
        topic gets them again.
        """
        for held, messages in self._workers.take_back(
            lambda held, first: held.queue.topic.startswith(RETRY_PREFIX) and first.topic == topic
        ):
            self._workers.submit(held, messages, *self._handler(topic, messages[0]))

    def quiesce(self) -> None:
        """Start no more handlers, of any queue."""
        self._stopping = True
        self._workers.quiesce()

    async def stop(self, timeout: float) -> bool:
        """Let running handlers end, and failed messages reach the brokers.

        timeout: seconds for both. False if handlers still run.
        """
        deadline = time.monotonic() + timeout
        self.quiesce()
        ended = await self._workers.stop(timeout)
        if not ended:
            log.warning(
                "%d handlers still run after %g s; their messages will be delivered again",
                self._workers.in_flight,
                timeout,
            )
        if self._sending:
            await asyncio.wait(self._sending, timeout=max(0.0, deadline - time.monotonic()))
        return ended

    def _restore_names(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Take a queue and its messages out of the namespace, for the handler."""
        held.shown = self._names.unwrap_queue(held.queue)
        for message in messages:
            message.topic = self._names.unwrap(message.topic)

    def _handler(self, topic: str, first: ReceivedMessage) -> tuple[Handler, bool, int]:
        """A topic's handler, whether it runs on the loop, and how many messages it gets at once.

        first: the first of the messages, for the log.
        """
        subscription = self._subscription_of(topic)
        if subscription is None or subscription.handler is None:
            log.warning("no handler for topic %s (message %s)", topic, first.msg_id)
            return _no_handler, True, self._settings.batch_size
        size = subscription.max_messages or self._settings.batch_size
        size = 1 if subscription.one_message else size
        return subscription.handler, subscription.on_loop, size

    def _max_wait(self, topic: str) -> float:
        """Seconds that messages of a topic wait for others."""
        subscription = self._subscription_of(topic)
        return 0.0 if subscription is None or subscription.one_message else subscription.max_wait

    def _with_values(self, topic: str, messages: list[ReceivedMessage]) -> None:
        """Have a deserializer read the values of messages, if the topic has one."""
        subscription = self._subscription_of(topic)
        if subscription is not None:
            subscription.give_values(messages)

    def _send(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task that `stop` waits for."""
        task = asyncio.get_running_loop().create_task(work)
        self._sending.add(task)
        task.add_done_callback(self._sending.discard)

    def _result(self, request: ConsumeRequest, outcome: Any) -> ConsumeResult:
        """The result of a handler; a log line if it is an exception or no result."""
        if outcome is None:
            return ConsumeResult.SUCCESS
        if isinstance(outcome, ConsumeResult) and outcome in self._results:
            return outcome
        error = outcome if isinstance(outcome, BaseException) else None
        what = f"raised {error!r}" if error else f"returned {outcome!r}, {self._no_result}"
        log.warning(
            "handler of topic %s %s for message %s; %s",
            request.messages[0].topic,
            what,
            ", ".join(message.msg_id for message in request.messages),
            self._fate(request),
            exc_info=error,
        )
        return ConsumeResult.RECONSUME_LATER

    def _note(self, request: ConsumeRequest, failed: int) -> None:
        """Count a call of a handler. failed: how many messages failed."""
        consume_ms = time.time_ns() // 1_000_000 - request.started_ms
        topic, consumed = request.messages[0].topic, len(request.messages) - failed
        self._add_counts(request.held, topic, 1, consume_ms, consumed, failed)

    def _add_counts(
        self,
        held: ProcessQueue,
        topic: str,
        calls: int,
        consume_ms: int,
        consumed: int,
        failed: int = 0,
    ) -> None:
        counts = held.counts
        if counts is None:
            counts = held.counts = self._statistics.of(held.queue.topic)
        held.last_consume_ms = time.time_ns() // 1_000_000
        counts.calls += calls
        counts.consume_ms += consume_ms
        counts.consumed += consumed
        counts.failed += failed
        self._tell("messages_handled", topic, consumed)
        self._tell("handler_failures", topic, failed)

    def _tell(self, name: str, topic: str, amount: int) -> None:
        """Add to one of the counters of `metrics`, if there are any."""
        if self._settings.metrics is not None and amount:
            labels = {"group": self._settings.group, "topic": topic}
            self._settings.metrics.add(name, amount, labels)

    def _acknowledge(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        if not held.dropped:  # else another member, or a new pull, decides about the offset
            held.remove(messages)
            self._offsets.follow(held)


async def _no_handler(_messages: list[ReceivedMessage], _context: object) -> ConsumeResult:
    return ConsumeResult.RECONSUME_LATER

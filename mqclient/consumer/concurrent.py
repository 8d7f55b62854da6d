"""Concurrent consumption: splits pulls, runs handlers, acknowledges or sends back.

Rules: RocketMQ 4.9 `ConsumeMessageConcurrentlyService`.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Any

from mqclient.config import ConsumerSettings
from mqclient.consumer.context import ConsumeResult, Handler, is_async
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.retry import SendBack, original_topic
from mqclient.consumer.subscription import Subscription
from mqclient.consumer.workers import ConsumeRequest, Workers
from mqclient.offsets import MemoryOffsets
from mqstore.message import ReceivedMessage
from mqstore.names import RETRY_PREFIX

__all__ = ["ConcurrentService"]

log = logging.getLogger(__name__)
STUCK_MAX = 16
STUCK_DELAY_LEVEL = 3
"""Most messages of a queue that one sweep sends back, and their delay level (10 s)."""
REDELIVER_HERE_DELAY = 5.0
"""Seconds until a message that no broker takes back goes to its handler again."""


class ConcurrentService:
    """Consumes pulled messages in any order, several at once."""

    def __init__(
        self,
        settings: ConsumerSettings,
        subscription_of: Callable[[str], Subscription | None],
        offsets: MemoryOffsets,
        send_back: SendBack | None,
    ) -> None:
        self._settings = settings
        self._subscription_of = subscription_of
        self._offsets = offsets
        self._send_back = send_back
        self._workers = Workers(
            settings.threads, f"ConsumeMessageThread_{settings.group}", self._done
        )
        self._giving_back: set[asyncio.Task[None]] = set()
        self._stopping = False

    @property
    def calling(self) -> bool:
        """Whether the caller is one of the handlers."""
        return self._workers.calling

    def submit(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Consume messages of one queue; the process queue holds them already."""
        if held.queue.topic.startswith(RETRY_PREFIX):
            for message in messages:
                message.topic = original_topic(message)
            for topic, group in groupby(messages, key=lambda message: message.topic):
                self._split(held, list(group), topic)
        else:
            self._split(held, messages, held.queue.topic)

    async def stop(self, timeout: float) -> None:
        """Let running handlers end, and send failed messages back to the brokers."""
        self._stopping = True
        if not await self._workers.stop(timeout):
            log.warning(
                "%d handlers still run after %g s; their messages will be delivered again",
                self._workers.in_flight,
                timeout,
            )
        if self._giving_back:
            await asyncio.wait(self._giving_back, timeout=timeout)

    async def give_back_stuck(self, queues: Iterable[ProcessQueue]) -> None:
        """Send back the first messages of queues if their handlers exceeded consume_timeout.

        The handlers are not interrupted. Without this, one stuck handler would hold back the
        commit of its whole queue. At most 16 of a queue at a time, as in RocketMQ.
        """
        started_before = time.time_ns() // 1_000_000 - int(self._settings.consume_timeout * 1000)
        for held in queues:
            for _ in range(STUCK_MAX):
                head = held.first_message
                if head is None or not 0 < head.consume_start_ms < started_before:
                    break
                fate = self._fate([head], STUCK_DELAY_LEVEL)
                log.warning("message %s exceeded consume_timeout; %s", head.msg_id, fate)
                if not await self._give_back(head, STUCK_DELAY_LEVEL):
                    break
                self._acknowledge(held, [head])

    async def _give_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        if self._send_back is None:
            return True
        return await self._send_back.give_back(message, delay_level)

    def _split(self, held: ProcessQueue, messages: list[ReceivedMessage], topic: str) -> None:
        subscription = self._subscription_of(topic)
        handler: Handler = _no_handler
        on_loop = True
        if subscription is None or subscription.handler is None:
            log.warning("no handler for topic %s (message %s)", topic, messages[0].msg_id)
        else:
            handler, on_loop = subscription.handler, subscription.on_loop
        self._workers.submit(held, messages, handler, on_loop, self._settings.batch_size)

    def _done(self, request: ConsumeRequest, outcome: Any) -> None:
        """On the loop, after a handler: acknowledge, or send failed messages back."""
        held = request.held
        if held.dropped:
            return  # another member reads these messages again
        held.last_consume_ms = time.time_ns() // 1_000_000
        failed = self._failed(request, outcome)
        if not failed:
            self._acknowledge(held, request.messages)
        elif self._send_back is None:
            log.warning("message %s failed and is dropped (broadcasting)", failed[0].msg_id)
            self._acknowledge(held, request.messages)
        else:
            task = asyncio.get_running_loop().create_task(self._return(request, failed))
            self._giving_back.add(task)
            task.add_done_callback(self._giving_back.discard)

    def _fate(self, messages: list[ReceivedMessage], delay_level: int) -> str:
        if self._send_back is None:
            return "broadcasting delivers nothing again"
        return self._send_back.fate(messages, delay_level)

    def _failed(self, request: ConsumeRequest, outcome: Any) -> list[ReceivedMessage]:
        """The messages to deliver again. One log line unless the handler asked for it."""
        if outcome is None or outcome is ConsumeResult.SUCCESS:
            ack_index = request.context.ack_index
            return [] if ack_index is None else request.messages[max(0, ack_index + 1) :]
        if outcome is not ConsumeResult.RECONSUME_LATER:
            error = outcome if isinstance(outcome, BaseException) else None
            what = f"raised {error!r}" if error else f"returned {outcome!r}, no ConsumeResult"
            log.warning(
                "handler of topic %s %s for message %s; %s",
                request.messages[0].topic,
                what,
                ", ".join(message.msg_id for message in request.messages),
                self._fate(request.messages, request.context.delay_level),
                exc_info=error,
            )
        return request.messages

    async def _return(self, request: ConsumeRequest, failed: list[ReceivedMessage]) -> None:
        """Send failed messages back; one that no broker takes stays held and is tried again."""
        level = request.context.delay_level
        taken = [await self._give_back(message, level) for message in failed]
        kept = [message for message, ok in zip(failed, taken, strict=True) if not ok]
        if request.held.dropped:
            return
        keep = set(map(id, kept))
        self._acknowledge(request.held, [m for m in request.messages if id(m) not in keep])
        if kept and not self._stopping:
            loop = asyncio.get_running_loop()
            loop.call_later(REDELIVER_HERE_DELAY, self._submit_again, request, kept)

    def _submit_again(self, request: ConsumeRequest, messages: list[ReceivedMessage]) -> None:
        held, handler = request.held, request.handler
        if not self._stopping and not held.dropped:
            self._workers.submit(held, messages, handler, is_async(handler), len(messages))

    def _acknowledge(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        held.remove(messages)
        self._offsets.follow(held)


async def _no_handler(_messages: list[ReceivedMessage], _context: object) -> ConsumeResult:
    return ConsumeResult.RECONSUME_LATER

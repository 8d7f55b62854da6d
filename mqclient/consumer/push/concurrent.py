"""Concurrent consumption: splits pulls, runs handlers, acknowledges or sends back.

Rules: RocketMQ 4.9 `ConsumeMessageConcurrentlyService`.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from itertools import groupby
from typing import Any

from mqclient.consumer.context import ConsumeResult
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.push.calls import ConsumeRequest
from mqclient.consumer.push.gathering import Gatherer
from mqclient.consumer.push.send_back import original_topic
from mqclient.consumer.push.service import ConsumeService
from mqcommon.message import ReceivedMessage
from mqcommon.names import RETRY_PREFIX

__all__ = ["ConcurrentService"]

log = logging.getLogger(__name__)
STUCK_MAX = 16
STUCK_DELAY_LEVEL = 3
"""Most messages of a queue that one sweep sends back, and their delay level (10 s)."""
REDELIVER_HERE_DELAY = 5.0
"""Seconds until a message that no broker takes back goes to its handler again."""


class ConcurrentService(ConsumeService):
    """Consumes pulled messages in any order, several at once."""

    _results = frozenset(
        (
            ConsumeResult.SUCCESS,
            ConsumeResult.RECONSUME_LATER,
            ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT,
        )
    )
    _no_result = "which is no result of a concurrent handler"

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._gatherer = Gatherer(self._call)

    def submit(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        """Consume messages of one queue; the process queue holds them already."""
        if held.queue.topic.startswith(RETRY_PREFIX):
            for message in messages:
                message.topic = original_topic(message)
        if self._names:
            self._restore_names(held, messages)
        if held.queue.topic.startswith(RETRY_PREFIX):
            for topic, group in groupby(messages, key=lambda message: message.topic):
                self._run(held, list(group), topic)
        else:
            self._run(held, messages, held.queue.topic)

    def pause(self, held: ProcessQueue) -> None:
        """Keep the messages of a paused queue that no handler has yet."""
        for _, messages in self._workers.take_back(lambda of, _first: of is held):
            held.parked.append(messages)
        held.parked += self._gatherer.take_back(held)

    def resume(self, held: ProcessQueue) -> None:
        """Call the handlers of the kept messages."""
        parked, held.parked = held.parked, []
        for messages in parked:
            self._run(held, messages, messages[0].topic)

    def _run(self, held: ProcessQueue, messages: list[ReceivedMessage], topic: str) -> None:
        """Call the topic's handler with messages, unless their queue is paused."""
        if held.paused:
            held.parked.append(messages)
            return
        wait = self._max_wait(topic)
        if wait:
            size = self._handler(topic, messages[0])[2]
            self._gatherer.add(held, topic, messages, size, wait)
        else:
            self._call(held, topic, messages)

    def _call(self, held: ProcessQueue, topic: str, messages: list[ReceivedMessage]) -> None:
        """Call the topic's handler with messages."""
        self._with_values(topic, messages)
        self._workers.submit(held, messages, *self._handler(topic, messages[0]))

    def forget(self, held: ProcessQueue) -> None:
        """Start no more handlers of a queue that is given up."""
        self._gatherer.forget(held)
        super().forget(held)

    def quiesce(self) -> None:
        """Start no more handlers, of any queue."""
        self._gatherer.forget()
        super().quiesce()

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
                if held.dropped or not self._claim(held, [head]):
                    break
                fate = self._fate_of([head], STUCK_DELAY_LEVEL)
                log.warning("message %s exceeded consume_timeout; %s", head.msg_id, fate)
                taken = await self._give_back(head, STUCK_DELAY_LEVEL)
                held.returning.discard(head.queue_offset)
                if not taken:
                    break
                self._acknowledge(held, [head])

    async def _give_back(self, message: ReceivedMessage, delay_level: int) -> bool:
        if self._send_back is None:
            return True
        taken = await self._send_back.give_back(message, delay_level)
        self._tell("messages_sent_back", message.topic, int(taken))
        return taken

    def _claim(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> list[ReceivedMessage]:
        """The messages that the caller must send back; the others were, or are being, sent back.

        A handler that fails after consume_timeout must not add a second copy.
        """
        mine = [m for m in messages if m.queue_offset not in held.returning and held.holds(m)]
        held.returning.update(message.queue_offset for message in mine)
        return mine

    def _done(self, request: ConsumeRequest, outcome: Any) -> None:
        """Acknowledge messages, or send the failed ones back."""
        held = request.held
        if held.dropped:
            return  # another member reads these messages again
        if outcome is None and request.context.ack_index is None:
            self._note(request, 0)
            self._acknowledge(held, request.messages)
            return
        failed = self._failed(request, outcome)
        self._note(request, len(failed))
        if not failed:
            self._acknowledge(held, request.messages)
        elif self._send_back is None:
            log.warning("message %s failed and is dropped (broadcasting)", failed[0].msg_id)
            self._acknowledge(held, request.messages)
        else:
            self._send(self._return(request, self._claim(held, failed)))

    def _fate(self, request: ConsumeRequest) -> str:
        return self._fate_of(request.messages, request.context.delay_level)

    def _fate_of(self, messages: list[ReceivedMessage], delay_level: int) -> str:
        if self._send_back is None:
            return "broadcasting delivers nothing again"
        return self._send_back.fate(messages, delay_level)

    def _failed(self, request: ConsumeRequest, outcome: Any) -> list[ReceivedMessage]:
        """The messages to deliver again."""
        if self._result(request, outcome) is not ConsumeResult.SUCCESS:
            return request.messages
        ack_index = request.context.ack_index
        return [] if ack_index is None else request.messages[max(0, ack_index + 1) :]

    async def _return(self, request: ConsumeRequest, failed: list[ReceivedMessage]) -> None:
        """Send failed messages back; one that no broker takes stays held and is tried again."""
        held, level = request.held, request.context.delay_level
        kept = []
        for message in failed:
            if held.dropped:
                return
            if not await self._give_back(message, level):
                message.consume_start_ms = 0  # no handler has it until the next try
                kept.append(message)
        held.returning.difference_update(message.queue_offset for message in failed)
        keep = held.returning.union(message.queue_offset for message in kept)
        self._acknowledge(held, [m for m in request.messages if m.queue_offset not in keep])
        if kept and not self._stopping:
            loop = asyncio.get_running_loop()
            loop.call_later(REDELIVER_HERE_DELAY, self._again, held, kept)

    def _again(self, held: ProcessQueue, messages: list[ReceivedMessage]) -> None:
        if not self._stopping and not held.dropped:
            self._run(held, messages, messages[0].topic)

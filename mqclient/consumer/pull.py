"""Pulls queues, one request at a time for each, and passes messages to the consume service.

Rules: RocketMQ 4.9 `DefaultMQPushConsumerImpl.pullMessage`. After an illegal offset, the queue
continues at once from the broker's offset, as in 5.x, instead of idling for 10 s.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from mqclient.consumer.answering import ERROR_DELAY, handle_reply, wanted
from mqclient.consumer.flow_control import FLOW_CONTROL_DELAY, too_much_held
from mqclient.consumer.missing_codec import CODEC_PAUSE
from mqclient.consumer.offset_store import MemoryOffsets
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.pull_answer import PullAnswer
from mqclient.consumer.statistics import ConsumerStatistics
from mqclient.consumer.subscription import Subscription
from mqclient.engine.client import Client
from mqclient.engine.request_template import FrameTemplate, Values
from mqclient.errors import (
    BrokerError,
    ClientTimeout,
    MissingCodecError,
    RocketMQError,
    UnreachableError,
)
from mqclient.settings.consumers import PushOptions
from mqcommon.message import MessageQueue, ReceivedMessage
from mqcommon.wire.codes import PullSysFlag, RequestCode, ResponseCode

__all__ = ["Puller", "log_failure", "pull_template", "pull_values"]

log = logging.getLogger(__name__)
BUSY_DELAY = 0.02
"""Seconds until the next pull after the broker's flow control (215)."""
ANSWER_GRACE = 15.0
"""Seconds to wait for the answer after the broker's hold time."""

_SUSPEND = int(PullSysFlag.SUSPEND)
_SUSPEND_AND_COMMIT = int(PullSysFlag.SUSPEND | PullSysFlag.COMMIT_OFFSET)
_NOT_SUBSCRIBED = (ResponseCode.SUBSCRIPTION_NOT_EXIST, ResponseCode.SUBSCRIPTION_NOT_LATEST)


def pull_template(
    client: Client,
    address: str,
    group: str,
    queue: MessageQueue,
    *,
    count: int,
    suspend_ms: int,
    subscription: str | None = None,
    sub_version: int = 0,
    expression_type: str | None = "TAG",
) -> FrameTemplate:
    """The shared part of the PULL_MESSAGE (11) requests for a queue; `pull_values` has the rest."""
    fields: list[tuple[str, str | None]] = [
        ("consumerGroup", group),
        ("topic", queue.topic),
        ("queueId", str(queue.queue_id)),
        ("queueOffset", None),
        ("maxMsgNums", str(count)),
        ("sysFlag", None),
        ("commitOffset", None),
        ("suspendTimeoutMillis", str(suspend_ms)),
    ]
    if subscription is not None:
        fields.append(("subscription", subscription))
    fields.append(("subVersion", str(sub_version)))
    fields.append(("expressionType", expression_type or "TAG"))
    fields.append(("bname", queue.broker_name))
    return FrameTemplate(client, address, RequestCode.PULL_MESSAGE, fields, "pulled")


def pull_values(held: ProcessQueue, sys_flag: int, commit_offset: int = 0) -> Values:
    """The fields of one pull, for the next messages of a queue."""
    return held.next_offset, sys_flag, commit_offset


def log_failure(client: Client, held: ProcessQueue, error: Exception, last_error: str) -> None:
    """Log a failed pull; a repeated error for debugging only."""
    if isinstance(error, (UnreachableError, ClientTimeout)):
        broker = held.queue.broker_name
        client.outages.failed(broker, "pulling %s failed: %s", held.queue, error)
        return
    level = logging.ERROR if isinstance(error, MissingCodecError) else logging.WARNING
    level = logging.DEBUG if str(error) == last_error else level
    log.log(level, "pulling %s failed: %s", held.queue, error)


class Puller:
    """Pulls one queue until it is dropped, one request at a time."""

    def __init__(
        self,
        client: Client,
        settings: PushOptions,
        offsets: MemoryOffsets,
        subscription_of: Callable[[str], Subscription | None],
        deliver: Callable[[ProcessQueue, list[ReceivedMessage]], None],
        resubscribe: Callable[[], None],
        queue_count: Callable[[], int],
        statistics: ConsumerStatistics,
    ) -> None:
        self._client = client
        self._settings = settings
        self._offsets = offsets
        self._subscription_of = subscription_of
        self._deliver = deliver
        self._resubscribe = resubscribe
        self._queue_count = queue_count
        self._statistics = statistics
        self._resumed = asyncio.Event()
        """Set, and replaced, when a paused queue may be pulled again."""

    def resume(self) -> None:
        """Pull the queues that are no longer paused."""
        self._resumed.set()
        self._resumed = asyncio.Event()

    async def run(self, held: ProcessQueue) -> None:
        """Pull until `held.dropped`; a repeated error is logged once."""
        last_error = ""
        while not held.dropped:
            while held.paused:
                await self._resumed.wait()
            if too_much_held(held, self._settings, self._queue_count()):
                await asyncio.sleep(FLOW_CONTROL_DELAY)
                continue
            try:
                delay = await self._pull_once(held)
                last_error = ""
            except (RocketMQError, ValueError) as error:  # ValueError: the answer cannot be decoded
                log_failure(self._client, held, error, last_error)
                last_error = str(error)
                delay = await self._after(error, held)
            if delay:
                await asyncio.sleep(delay)

    async def _pull_once(self, held: ProcessQueue) -> float:
        """Send one pull and handle its answer. Returns seconds until the next pull."""
        subscription = self._subscription_of(held.queue.topic)
        if subscription is None or not subscription.announced:
            return ERROR_DELAY
        template = self._template(held, subscription)
        wait = self._settings.pull.long_poll_timeout + ANSWER_GRACE
        # RocketMQ's broker may serve a pull after the commit with which an orderly consumer gives a
        # queue up. Its older offset would have the next owner repeat messages.
        commits = held.broker_id == 0 and not self._settings.orderly
        commit = self._offsets.get(held.queue) if commits else 0
        flag = _SUSPEND_AND_COMMIT if commit > 0 else _SUSPEND
        asked = held.next_offset
        held.last_pull_ms = time.time_ns() // 1_000_000
        try:
            # Send at once: the broker reads the next messages while handlers run.
            values = pull_values(held, flag, commit)
            reply = await template.send(values, b"", wait, at_once=True)
        except UnreachableError as error:
            raise template.explain(error) from error.__cause__
        if held.dropped or held.paused:
            return 0.0
        if self._subscription_of(held.queue.topic) is not subscription:
            return 0.0  # it may have passed over messages that the new subscription wants
        take = partial(self._take, held, subscription)
        outages, suspend = self._client.outages, self._settings.pull.long_poll_timeout
        pause = handle_reply(held, asked, reply, take, outages, suspend)
        if held.at_end:  # handlers come first, because the next pull only waits for a message
            await asyncio.sleep(0)
        return max(pause, self._settings.pull.interval)

    def _template(self, held: ProcessQueue, subscription: Subscription) -> FrameTemplate:
        """The queue's template, made again if its broker or its subscription changed."""
        address = self._client.address_of(held.queue, held.broker_id)
        count = 1 if held.pulls_one else self._settings.pull.batch
        made_for = (address, subscription.data.sub_version, count)
        if held.template is None or held.template[0] != made_for:
            template = pull_template(
                self._client,
                address,
                self._settings.group,
                held.queue,
                count=count,
                suspend_ms=int(self._settings.pull.long_poll_timeout * 1000),
                sub_version=subscription.data.sub_version,
                expression_type=subscription.data.expression_type,
            )
            held.template = made_for, template
        return held.template[1]

    def _take(self, held: ProcessQueue, subscription: Subscription, answer: PullAnswer) -> None:
        if answer.moved:
            self._offsets.update(held.queue, answer.next_offset, forward_only=False)
        messages, size = wanted(subscription, answer)
        held.at_end = bool(messages) and answer.next_offset >= answer.max_offset
        if messages:
            counts = self._statistics.of(held.queue.topic)
            counts.pulls += 1
            counts.pulled += len(messages)
            counts.pull_ms += time.time_ns() // 1_000_000 - held.last_pull_ms
        held.add(messages, size)
        held.next_offset = answer.next_offset
        if messages:
            self._deliver(held, messages)
        elif not len(held):
            self._offsets.update(held.queue, answer.next_offset)

    async def _after(self, error: Exception, held: ProcessQueue) -> float:
        """Act on an error; returns seconds until the next try."""
        if isinstance(error, MissingCodecError):
            return CODEC_PAUSE
        if isinstance(error, BrokerError):
            if error.code == ResponseCode.FLOW_CONTROL:
                return BUSY_DELAY
            if error.code in _NOT_SUBSCRIBED:
                self._resubscribe()
        elif isinstance(error, (UnreachableError, ClientTimeout)):
            held.broker_id = 0
            try:
                await self._client.routes.refresh(held.queue.topic)
            except RocketMQError as failure:
                log.debug("could not refresh the route of %s: %s", held.queue.topic, failure)
        return ERROR_DELAY

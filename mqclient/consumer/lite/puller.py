"""Pulls the queues of a lite pull consumer ahead of its caller, one request at a time for each.

Rules: RocketMQ 4.9 `DefaultLitePullConsumerImpl.PullTaskImpl`. Pulls carry their subscription, so
that brokers need no heartbeat, and never commit.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from functools import partial

from mqclient.consumer.answering import ERROR_DELAY, handle_reply, wanted
from mqclient.consumer.lite.buffer import LiteBuffer, LiteQueue
from mqclient.consumer.missing_codec import CODEC_PAUSE
from mqclient.consumer.pull import (
    BUSY_DELAY,
    log_failure,
    pull_template,
    pull_values,
)
from mqclient.consumer.pull_answer import PullAnswer
from mqclient.consumer.subscription import Subscription
from mqclient.engine.client import Client
from mqclient.engine.request_template import FrameTemplate
from mqclient.engine.serializing import Reader
from mqclient.errors import BrokerError, MissingCodecError, RocketMQError, UnreachableError
from mqclient.settings.consumers import LitePullOptions
from mqcommon.message import set_reader
from mqcommon.names import TOOLS_GROUP
from mqcommon.wire.bodies.heartbeat import SQL92
from mqcommon.wire.codes import PullSysFlag, ResponseCode

__all__ = ["LitePuller"]

log = logging.getLogger(__name__)
ANSWER_GRACE = 10.0
"""Seconds to wait for the answer after the broker's hold time."""
_FLAGS = int(PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION | PullSysFlag.LITE_PULL)
_PASSING = (
    ResponseCode.SYSTEM_BUSY,
    ResponseCode.SERVICE_NOT_AVAILABLE,
    ResponseCode.FLOW_CONTROL,
)
"""Refusals that end by themselves; the caller learns of others."""


class LitePuller:
    """Pulls one queue until it is dropped, whenever the buffer has room for it."""

    def __init__(
        self,
        client: Client,
        settings: LitePullOptions,
        buffer: LiteBuffer,
        subscription_of: Callable[[str], Subscription | None],
    ) -> None:
        self._client = client
        self._settings = settings
        self._buffer = buffer
        deserializer = settings.deserializer
        self._reader = None if deserializer is None else Reader(deserializer)
        self._subscription_of = subscription_of

    async def run(self, held: LiteQueue) -> None:
        """Pull until `held.dropped`; a repeated error is logged once."""
        last_error = ""
        while not held.dropped:
            await self._buffer.room(held)
            try:
                await self._pull_once(held)
                last_error = ""
            except (RocketMQError, ValueError) as error:  # ValueError: the answer cannot be decoded
                log_failure(self._client, held, error, last_error)
                last_error = str(error)
                await asyncio.sleep(await self._after(error, held))

    async def _pull_once(self, held: LiteQueue) -> None:
        subscription = self._subscription_of(held.queue.topic)
        if subscription is None:  # unsubscribed: the next rebalance drops the queue
            await asyncio.sleep(ERROR_DELAY)
            return
        template = self._template(held, subscription)
        asked = held.next_offset
        held.last_pull_ms = time.time_ns() // 1_000_000
        try:
            values = pull_values(held, _FLAGS)
            wait = self._settings.pull.long_poll_timeout + ANSWER_GRACE
            reply = await template.send(values, b"", wait, at_once=True)
        except UnreachableError as error:
            raise template.explain(error) from error.__cause__
        if held.dropped or self._subscription_of(held.queue.topic) is not subscription:
            return  # the answer may have passed over messages that a new subscription wants
        take = partial(self._take, held, subscription)
        outages, suspend = self._client.outages, self._settings.pull.long_poll_timeout
        if pause := handle_reply(held, asked, reply, take, outages, suspend):
            await asyncio.sleep(pause)

    def _template(self, held: LiteQueue, subscription: Subscription) -> FrameTemplate:
        """The queue's template, made again if its broker or its subscription changed."""
        data = subscription.data
        address = self._client.address_of(held.queue, held.broker_id)
        count = 1 if held.pulls_one else self._settings.pull.batch
        made_for = (address, data.sub_version, count)
        if held.template is None or held.template[0] != made_for:
            template = pull_template(
                self._client,
                address,
                self._settings.group or TOOLS_GROUP,
                held.queue,
                count=count,
                suspend_ms=int(self._settings.pull.long_poll_timeout * 1000),
                subscription=data.sub_string,
                sub_version=data.sub_version if data.expression_type == SQL92 else 0,
                expression_type=data.expression_type,
            )
            held.template = made_for, template
        return held.template[1]

    def _take(self, held: LiteQueue, subscription: Subscription, answer: PullAnswer) -> None:
        if answer.moved:
            held.acknowledged = 0  # the caller's messages are from before the queue restarted
        messages, size = wanted(subscription, answer)
        held.next_offset = answer.next_offset
        names = self._client.namespace
        if names:
            for message in messages:
                message.topic = names.unwrap(message.topic)
        if messages:
            if self._reader is not None:
                set_reader(messages, self._reader)
            self._buffer.add(held, messages, size)

    async def _after(self, error: Exception, held: LiteQueue) -> float:
        """Act on an error; returns seconds until the next try."""
        if isinstance(error, MissingCodecError):
            self._buffer.fail(error)
            return CODEC_PAUSE
        if isinstance(error, BrokerError):
            if error.code == ResponseCode.FLOW_CONTROL:
                return BUSY_DELAY
            if error.code not in _PASSING:
                self._buffer.fail(error)
            return ERROR_DELAY
        held.broker_id = 0
        try:
            await self._client.routes.refresh(held.queue.topic)
        except RocketMQError as failure:
            log.debug("could not refresh the route of %s: %s", held.queue.topic, failure)
        return ERROR_DELAY

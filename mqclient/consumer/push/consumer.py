"""The push consumer's asyncio face: wires pulling, handlers, offsets and the group together."""

import asyncio
import contextlib
import logging
import os
import time
from datetime import datetime
from typing import Self

from mqclient.consumer.assignment import Assignment
from mqclient.consumer.consumer import Consumer
from mqclient.consumer.local_offset_store import LocalOffsets
from mqclient.consumer.offset_store import MemoryOffsets, remote_offsets
from mqclient.consumer.process_queue import ProcessQueue
from mqclient.consumer.pull import Puller
from mqclient.consumer.push.broker_requests import RemoteControl
from mqclient.consumer.push.concurrent import ConcurrentService
from mqclient.consumer.push.orderly import OrderlyService
from mqclient.consumer.push.orderly_assignment import OrderlyAssignment
from mqclient.consumer.push.running_info import RunningInfo
from mqclient.consumer.push.send_back import SendBack
from mqclient.consumer.push.service import ConsumeService
from mqclient.consumer.push.subscribing import HandlerSubscriptions
from mqclient.consumer.statistics import SAMPLE_INTERVAL, ConsumerStatistics
from mqclient.consumer.subscription import (
    HandlerWrap,
    Subscription,
    tag_subscription,
)
from mqclient.consumer.subscription_versions import outrank
from mqclient.engine.client import Client
from mqclient.engine.parallel import in_parallel
from mqclient.engine.serializing import V
from mqclient.engine.serving import run
from mqclient.errors import RocketMQError
from mqclient.settings.checks import check_readable, seconds
from mqclient.settings.consumers import PushOptions
from mqclient.settings.declare import explained, takes
from mqclient.trace.consume_hook import ConsumeTrace
from mqclient.trace.dispatcher import TraceDispatcher
from mqcommon.names import retry_topic
from mqcommon.wire.bodies.heartbeat import SQL92, ConsumerData

__all__ = ["PushConsumer"]

log = logging.getLogger(__name__)
LAST_COMMIT_S = 1.0
"""Seconds that the last commits may take, even if the handlers took all the time of a close."""
_FROM_WHERE = {
    "latest": "CONSUME_FROM_LAST_OFFSET",
    "earliest": "CONSUME_FROM_FIRST_OFFSET",
}


@explained
class PushConsumer(Consumer, HandlerSubscriptions[V]):
    """Reads topics for a group and calls handlers. The asyncio face; `mqclient.PushConsumer` is
    the same for threads.

        async with PushConsumer("order_readers", "127.0.0.1:9876") as consumer:
            consumer.subscribe("TopicTest", "TagA || TagB", handle)
            await consumer.run()
    """

    settings: PushOptions[V]
    _closes_first = True

    @takes(PushOptions)
    def __init__(self, options: PushOptions[V]) -> None:
        super().__init__(options)
        settings, client = options, self._client
        self._options = options
        self._offsets = _offsets(client, settings)
        self._statistics = ConsumerStatistics()
        self._service, self._assignment = self._consuming()
        of_topic, data = self._subscription_of, self._consumer_data
        info = RunningInfo(
            client.settings, settings, self._assignment, self._offsets, self._statistics, data
        )
        RemoteControl(client, settings, self._assignment, self._offsets, of_topic, info).serve()
        client.set_consumer(settings.group, self._consumer_data)
        self._closing: asyncio.Task[None] | None = None
        self._wraps: list[HandlerWrap] = []
        self._trace: TraceDispatcher | None = None
        if settings.trace:
            self._trace = TraceDispatcher(client, settings.trace.topic, settings.group, "CONSUME")
        if settings.model == "clustering":
            retry = retry_topic(settings.group)
            self._subscriptions[retry] = tag_subscription(retry, "*")

    def _consuming(self) -> tuple[ConsumeService, Assignment[ProcessQueue]]:
        """What runs the handlers, and what keeps this member's queues."""
        client, settings, offsets = self._client, self.settings, self._offsets
        statistics = self._statistics
        of_topic, of_all = self._subscription_of, self._subscriptions.values
        clustering = settings.model == "clustering"
        back = SendBack(client, settings)
        service: ConsumeService
        if settings.orderly:
            service = OrderlyService(
                settings, of_topic, offsets, statistics, back, client.namespace
            )
        else:
            back_or_none = back if clustering else None
            service = ConcurrentService(
                settings, of_topic, offsets, statistics, back_or_none, client.namespace
            )
        self._puller = puller = Puller(
            client,
            settings,
            offsets,
            of_topic,
            service.submit,
            self._heartbeat_soon,
            lambda: len(self._assignment.held),
            statistics,
        )
        if isinstance(service, OrderlyService) and clustering:
            return service, OrderlyAssignment(client, settings, offsets, of_all, puller, service)
        return service, Assignment(
            client, settings, offsets, of_all, puller, ProcessQueue, service.forget
        )

    # --- life

    async def start(self) -> None:
        """Join the group and begin to read.

        `async with` starts too, and does not need a subscription yet. Raises ValueError when
        nothing is subscribed to, UnreachableError or ClientTimeout when no NameServer answers,
        BrokerError when a broker refuses a SqlFilter, OSError or ValueError when offset_store
        cannot be read.
        """
        self._check_subscribed()
        await self._start()

    def _check_subscribed(self) -> None:
        """Raise ValueError when no topic is subscribed to."""
        if not self._patterns and not any(item.handler for item in self._subscriptions.values()):
            raise ValueError(
                f"the consumer of group {self.settings.group} would read nothing; call "
                "subscribe(topic, '*', handler) or use @consumer.on_message(topic) first"
            )

    async def _start(self) -> None:
        await self._client.start(self._begin)

    async def _begin(self) -> None:
        await self._offsets.load()
        if self._trace is not None:
            self._trace.start()
        client = self._client
        await self._find_topics()
        await client.routes.refresh_all(self._subscriptions)
        await in_parallel(self._checks.check, list(self._subscriptions.values()))
        client.check_running()  # a close may have come meanwhile
        client.on_route_change(self._route_changed)
        await self._announce()
        client.spawn(self._assignment.run(), "rebalancing")
        interval = self.settings.commit_interval
        client.spawn(client.every(interval, self._commit, first=interval), "offset commits")
        client.spawn(self._assignment.keep_locks(), "queue locks")
        samples = client.every(SAMPLE_INTERVAL, self._statistics.sample, first=SAMPLE_INTERVAL)
        client.spawn(samples, "statistics")
        self._report_lags()
        limit = self.settings.consume_timeout
        client.spawn(client.every(limit, self._give_back_stuck, first=limit), "stuck handlers")

    async def close(self, timeout: float = 20.0) -> None:
        """Stop pulling, let running handlers end, commit, leave the group.

        timeout: seconds for the handlers. Unhandled messages go to other members. Inside a
        handler it returns at once, and the rest happens when that handler has ended.
        """
        limit = seconds(timeout)
        self._client.check_loop()
        if self._closing is None or self._closing.done():
            self._closing = asyncio.create_task(self._close(limit))
        if not self._in_handler:
            await asyncio.shield(self._closing)

    @property
    def _in_handler(self) -> bool:
        return self._service.calling or super()._in_handler

    async def _close(self, limit: float) -> None:
        deadline = time.monotonic() + limit
        if self._client.running:
            self._service.quiesce()
        await self._checks.cancel()
        if self._client.running:
            await self._assignment.stop()
            await self._service.stop(limit)
            await self._assignment.tell_end(max(LAST_COMMIT_S, deadline - time.monotonic()))
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(LAST_COMMIT_S, deadline - time.monotonic())):
                    await self._assignment.finish()
                    if self._trace is not None:
                        await self._trace.close()
        await self._client.close(max(0.0, deadline - time.monotonic()))

    async def run(self, timeout: float = 20.0) -> None:
        """Serve until SIGINT or SIGTERM (signals on the main thread only) or close(); then close.

        Starts the consumer if it is not running. timeout: seconds for the handlers that run at the
        end. Raises BrokerError when a broker refuses a SqlFilter, RocketMQError when the consumer
        can no longer work. For several clients, see `mqclient.aio.run`.
        """
        await run(self, timeout=timeout)

    async def _serve(self) -> None:
        await super()._serve()
        await self._checks.finish()
        self._check_subscribed()

    async def __aenter__(self) -> Self:
        await self._start()
        return self

    def __repr__(self) -> str:
        return f"<PushConsumer {self.settings.group} {self._client.client_id}>"

    # --- subscriptions

    def _subscribe(self, subscription: Subscription) -> None:
        self._add(subscription)

    async def _add_checked(self, subscription: Subscription) -> None:
        """Add a subscription, and raise a refusal of its filter; for the blocking face."""
        self._add(subscription)
        await self._checks.finish(subscription.data.topic)

    def _add(self, subscription: Subscription) -> None:
        """Add a subscription; for `subscribe` and the blocking face."""
        if self._trace is not None and subscription.handler is not None:
            tracing = ConsumeTrace(self._trace, self.settings.consume_timeout)
            subscription.handler = tracing.around(subscription.handler)
        if subscription.pattern is not None:
            self._accept(subscription)
            return
        data = subscription.data
        data.topic = check_readable(self._client.namespace.wrap(data.topic))
        if self._client.running and data.expression_type == SQL92:
            self._checks.begin(subscription, self._accept)
        else:
            self._checks.forget(data.topic)
            self._accept(subscription)

    def _wrap_handlers(self, wrap: HandlerWrap) -> None:
        """Put something around every handler, of subscriptions that were made and that will be."""
        self._wraps.append(wrap)
        for subscription in self._subscriptions.values():
            subscription.wrap_handler(wrap)

    def _keep(self, subscription: Subscription) -> None:
        for wrap in self._wraps:
            subscription.wrap_handler(wrap)
        topic = subscription.data.topic
        before = self._subscriptions.get(topic)
        if before is not None:
            subscription.initial, subscription.balanced = before.initial, before.balanced
        self._subscriptions[topic] = subscription

    def _drop_topic(self, topic: str) -> None:
        if self._subscriptions.pop(topic, None) is not None:
            self._assignment.retire(self._assignment.of_topic(topic))
            self._service.unsubscribed(self._client.namespace.unwrap(topic))

    def _pause(self, held: ProcessQueue) -> None:
        self._service.pause(held)

    def _resume(self, held: ProcessQueue) -> None:
        self._service.resume(held)
        self._puller.resume()

    # --- wiring

    def _subscription_of(self, topic: str) -> Subscription | None:
        """The subscription of a topic, named with or without the namespace."""
        names = self._client.namespace
        return self._subscriptions.get(names.wrap(topic) if names else topic)

    def _consumer_data(self) -> ConsumerData:
        start = self.settings.consume_from
        where = _FROM_WHERE.get(start) if not isinstance(start, datetime) else None
        return ConsumerData(
            self.settings.group,
            message_model=self.settings.model.upper(),
            consume_from_where=where or "CONSUME_FROM_TIMESTAMP",
            subscription_data_set=[item.data for item in self._subscriptions.values()],
        )

    async def _commit(self) -> None:
        await self._offsets.commit(list(self._assignment.held))

    async def _give_back_stuck(self) -> None:
        await self._service.give_back_stuck(list(self._assignment.held.values()))

    async def _heartbeat_then_rebalance(self) -> None:
        """Ask for the routes first, because only known brokers get a heartbeat."""
        await in_parallel(self._look_up, list(self._subscriptions.values()))
        await self._announce()
        self._assignment.rebalance_soon()

    async def _look_up(self, item: Subscription) -> None:
        with contextlib.suppress(RocketMQError):
            await self._client.routes.get(item.data.topic)
            await self._checks.check_later(item)

    async def _announce(self) -> None:
        """Send a heartbeat; new subscriptions are pulled from then on."""
        new = [item for item in self._subscriptions.values() if not item.announced]
        await outrank(self._client, self.settings.group, [item.data for item in new])
        await self._client.heartbeat()
        for item in new:
            item.announced = True
            self._assignment.pull_again(item.data.topic)


def _offsets(client: Client, settings: PushOptions) -> MemoryOffsets:
    """What keeps the progress: brokers, a file, or memory."""
    if settings.model == "clustering":
        return remote_offsets(client, settings)
    if settings.offset_store is None:
        log.info(
            "group %s broadcasts without offset_store: a restart begins at consume_from again",
            settings.group,
        )
        return LocalOffsets(None)
    return LocalOffsets(os.fspath(settings.offset_store))

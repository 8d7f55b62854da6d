"""Sends: chooses a queue, builds the request, tries another broker if that may help.

Rules: RocketMQ 4.9 `DefaultMQProducerImpl.sendDefaultImpl`, `MQFaultStrategy`.
"""

import asyncio
import itertools
import logging
import random
import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from copy import copy
from typing import Any

from mqclient.engine.client import Client
from mqclient.engine.routes import TopicRoute
from mqclient.errors import (
    BrokerError,
    ClientTimeout,
    NoRouteError,
    RocketMQError,
    UnreachableError,
)
from mqclient.producer.latency_fault import LatencyFaults
from mqclient.producer.outgoing import Outgoing, Prepare, into_namespace, prepare, prepare_batch
from mqclient.producer.queue_sender import QueueSender
from mqclient.producer.results import SendResult
from mqclient.producer.retry import Failure, Tries, may_be_mended
from mqclient.settings.producers import SendOptions
from mqcommon.message import Message, MessageQueue

__all__ = ["QueueChooser", "Sender"]

log = logging.getLogger(__name__)


class QueueChooser:
    """Takes the queues of a topic in turn; after a failure, prefers another broker."""

    def __init__(self, start: int | None) -> None:
        first = random.randrange(1 << 30) if start is None else start
        self.turn: Callable[[], int] = itertools.count(first).__next__
        """Returns the next count; take it modulo the number of queues."""

    def choose(
        self, queues: Sequence[MessageQueue], fresh: Container[str] | None = None
    ) -> MessageQueue:
        """The next queue. fresh: names of brokers to prefer, None on a first try."""
        for _ in queues:
            queue = queues[self.turn() % len(queues)]
            if fresh is None or queue.broker_name in fresh:
                return queue
        return queues[self.turn() % len(queues)]


class _SendPaths:
    """The paths of a topic's queues, until its route changes."""

    __slots__ = ("by_queue", "in_turn", "route", "turn")

    turn: Callable[[], int]
    """The rotation counter of the topic's chooser; set when the first queue is known."""

    def __init__(self, route: TopicRoute | None) -> None:
        self.route = route
        self.by_queue: dict[MessageQueue, QueueSender] = {}
        self.in_turn: list[QueueSender] = []
        """The route's queues, in its order: hashing a queue costs as much as its request.
        Empty until a send rotates over the queues."""


class Sender:
    """Sends prepared messages of one producer group."""

    def __init__(self, client: Client, settings: SendOptions) -> None:
        self._client = client
        self.settings = settings
        self._choosers: dict[str, QueueChooser] = {}
        self._paths: dict[str, _SendPaths] = {}
        self._refreshing: set[str] = set()
        """Topics whose route is asked for after a failed send."""
        self._faults = LatencyFaults() if settings.avoid_slow_brokers else None
        self.on_sent: Callable[[Outgoing, SendResult, int], None] | None = None
        """Called after each stored message, with the start of its send in milliseconds; by the
        methods `send_anywhere` and `send_to` only."""
        self.on_retry: Callable[[str], None] | None = None
        """Called before each further try of a send, with the topic."""
        self.prepare: Prepare = prepare
        """Makes a message ready to send."""
        if client.namespace:
            self.prepare = self._prepare_in_namespace

    def _prepare_in_namespace(self, message: Message, settings: SendOptions) -> Outgoing:
        return into_namespace(self._client.namespace, prepare(message, settings))

    def prepare_with(self, message: Message, more: Mapping[str, str]) -> Outgoing:
        """Prepare a message with more properties, which may be RocketMQ's own."""
        extended = copy(message)
        extended.properties = {**message.properties, **more}
        return self.prepare(extended, self.settings)

    def prepare_batch(self, messages: Sequence[Message]) -> list[Outgoing]:
        """Make a batch ready to send, in one or more parts."""
        parts = prepare_batch(messages, self.settings)
        namespace = self._client.namespace
        return [into_namespace(namespace, part) for part in parts] if namespace else parts

    async def route(self, topic: str, timeout: float) -> TopicRoute:
        """The route to send to. timeout: seconds, if a NameServer must be asked.

        Raises NoRouteError when there is none, UnreachableError, ClientTimeout.
        """
        routes = self._client.routes
        known = routes.known(topic)
        if known is not None and known.publish:
            return known
        try:
            async with asyncio.timeout(max(0.0, timeout)):
                return await routes.for_sending(topic, self.settings.default_topic_queues)
        except TimeoutError as error:
            if isinstance(error, ClientTimeout):
                raise
            raise ClientTimeout(
                f"NameServer {self._client.namesrv} did not answer in time for topic {topic!r}"
                f"; check that it runs (mqserver namesrv start)"
            ) from None

    def choose(
        self, topic: str, route: TopicRoute, fresh: Container[str] | None = None
    ) -> MessageQueue:
        """The next queue of a topic. fresh: names of brokers to prefer."""
        chooser = self._chooser(topic)
        if self._faults is not None:
            return self._faults.choose(route.publish, chooser.turn)
        return chooser.choose(route.publish, fresh)

    def _chooser(self, topic: str) -> QueueChooser:
        chooser = self._choosers.get(topic)
        if chooser is None:
            chooser = self._choosers[topic] = QueueChooser(self.settings.queue_index_start)
        return chooser

    async def send_anywhere(self, outgoing: Outgoing, timeout: float) -> SendResult:
        """Try the queues in turn until one stores the message; see `tries`.

        timeout: seconds for all tries; each may use the remaining time. Raises as
        Producer.send does.
        """
        trying = self.try_on(outgoing, time.monotonic(), timeout, None)
        return await (trying if self.on_sent is None else self._told(outgoing, trying))

    async def _told(self, outgoing: Outgoing, sending: Awaitable[SendResult]) -> SendResult:
        started_ms = time.time_ns() // 1_000_000
        result = await sending
        if self.on_sent is not None:
            self.on_sent(outgoing, result, started_ms)
        return result

    def judge(self, path: QueueSender, outgoing: Outgoing, answer: Any) -> SendResult | Failure:
        """The result of the first try. answer: the broker's, or the error of the send.

        Raises errors that another try would not cure.
        """
        try:
            if isinstance(answer, Exception):
                raise answer
            result = path.result(answer, outgoing)
        except (UnreachableError, ClientTimeout, BrokerError) as error:
            return _judge(path, error)
        if self._too_little(result):
            return Failure(path.queue.broker_name, None, result)
        return result

    async def try_on(
        self,
        outgoing: Outgoing,
        started: float,
        timeout: float,
        failure: Failure | None,
    ) -> SendResult:
        """The remaining tries, after fetching the route if there is none.

        started: start of the first try, on the monotonic clock. timeout: seconds from then.
        """
        tries = Tries(self.settings.retry.max_retries, started, timeout)
        if failure is not None:
            tries.add(failure)
        while not tries.is_over or tries.is_first:
            queue = await self._next_queue(outgoing.topic, tries)
            if queue is None:
                break
            if not tries.is_first:
                self._tell_retry(outgoing.topic)
            path = self._path(queue)
            try_started = time.monotonic()
            try:
                result = path.result(await path.send(outgoing, tries.left), outgoing)
                self._note(queue, try_started)
            except (UnreachableError, ClientTimeout, BrokerError) as error:
                self._note(queue, try_started, failed=True)
                tries.add(_judge(path, error))
            else:
                if not self._too_little(result):
                    return result
                tries.add(Failure(queue.broker_name, None, result))
        return tries.outcome(outgoing.msg_id)

    async def _next_queue(self, topic: str, tries: Tries) -> MessageQueue | None:
        """A queue of a broker that did not fail, or after a pause of one that did.

        None if no try follows. Raises as `route` does before the first try; later the route may
        come back as the brokers do.
        """
        while True:
            try:
                route = await self.route(topic, tries.left)
            except (NoRouteError, UnreachableError, ClientTimeout):
                if tries.is_first:
                    raise
            else:
                fresh = tries.fresh(queue.broker_name for queue in route.publish)
                if fresh:
                    return self.choose(topic, route, None if tries.is_first else fresh)
            self._refresh_soon(topic)
            if not await tries.next_round():
                return None
            self._client.check_running()

    def _refresh_soon(self, topic: str) -> None:
        """Ask for the route while a failed send pauses: its brokers may have moved."""
        if topic not in self._refreshing:
            self._refreshing.add(topic)
            self._client.spawn(self._refresh(topic), "route after a failed send")

    async def _refresh(self, topic: str) -> None:
        try:
            await self._client.routes.refresh(topic)
        except RocketMQError as error:
            log.debug("the route of topic %s is not known now: %s", topic, error)
        finally:
            self._refreshing.discard(topic)

    def _note(self, queue: MessageQueue, started: float, *, failed: bool = False) -> None:
        """Remember how long a try took, if slow brokers are avoided."""
        if self._faults is not None:
            self._faults.note(queue.broker_name, time.monotonic() - started, failed=failed)

    async def send_to(self, outgoing: Outgoing, queue: MessageQueue, timeout: float) -> SendResult:
        """Send to one queue, again until the timeout while its broker cannot be reached.

        timeout: seconds for all tries.
        """
        sending = self._send_on(outgoing, queue, timeout)
        return await (sending if self.on_sent is None else self._told(outgoing, sending))

    async def _send_on(self, outgoing: Outgoing, queue: MessageQueue, timeout: float) -> SendResult:
        tries = Tries(self.settings.retry.max_retries, time.monotonic(), timeout)
        while True:
            path = self._path(queue)
            try:
                return path.result(await path.send(outgoing, tries.left), outgoing)
            except (UnreachableError, ClientTimeout) as error:
                tries.add(Failure(queue.broker_name, path.explain(error)))
            self._refresh_soon(queue.topic)
            if not await tries.next_round():
                return tries.outcome(outgoing.msg_id)
            self._client.check_running()
            self._tell_retry(queue.topic)

    def _tell_retry(self, topic: str) -> None:
        if self.on_retry is not None:
            self.on_retry(self._client.namespace.unwrap(topic))

    async def oneway_to(self, outgoing: Outgoing, queue: MessageQueue, timeout: float) -> None:
        """Send to one queue without an answer; returns when the bytes are written."""
        path = self._path(queue)
        try:
            await path.oneway(outgoing, timeout)
        except UnreachableError as error:
            explained = path.explain(error)
            raise explained from explained.__cause__

    def _too_little(self, result: SendResult) -> bool:
        """Whether another broker must store a message too, because one stored it less durably."""
        return result.lesser and self.settings.retry.not_durable

    def next_path(self, topic: str) -> QueueSender | None:
        """The path of the topic's next queue; None if its route must be fetched."""
        paths = self._paths.get(topic)
        in_turn = paths.in_turn if paths is not None else ()
        if paths is None or not in_turn or paths.route is not self._client.routes.table.get(topic):
            return self._first_path(topic)
        return in_turn[paths.turn() % len(in_turn)]

    def _first_path(self, topic: str) -> QueueSender | None:
        """The same, for a route that no send has used. None too if a send must be watched."""
        if self._faults is not None or self.on_sent is not None:
            return None
        route = self._client.routes.known(topic)
        if route is None or not route.publish:
            return None
        if any(queue.broker_name not in route.brokers for queue in route.publish):
            return self._path(self.choose(topic, route))  # as `_path` says
        turn = self._chooser(topic).turn
        in_turn = [self._path(queue) for queue in route.publish]
        paths = self._paths[topic]
        if paths.route is route:  # else another thread has stored a newer one
            paths.turn = turn
            paths.in_turn = in_turn
        return in_turn[turn() % len(in_turn)]

    def _path(self, queue: MessageQueue) -> QueueSender:
        """The path of a queue, replaced if the topic's route has changed."""
        route = self._client.routes.known(queue.topic)
        paths = self._paths.get(queue.topic)
        if paths is None or paths.route is not route:
            paths = self._paths[queue.topic] = _SendPaths(route)
        path = paths.by_queue.get(queue)
        if path is None:
            path = QueueSender(self._client, self.settings, queue)
            if route is not None and queue.broker_name in route.brokers:
                paths.by_queue[queue] = path  # else the address comes from another topic's route
        return path


def _judge(path: QueueSender, error: Exception) -> Failure:
    """Classify a failed try: raise errors that another try would not mend."""
    if not may_be_mended(error):
        raise error
    return Failure(path.queue.broker_name, path.explain(error))

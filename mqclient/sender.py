"""Sends: chooses a queue, builds the request, tries another broker if that may help.

Rules: RocketMQ 4.9 `DefaultMQProducerImpl.sendDefaultImpl`, `MQFaultStrategy`.
"""

import asyncio
import itertools
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

from mqclient.config import ProducerSettings
from mqclient.engine import Client
from mqclient.errors import BrokerError, ClientTimeout, UnreachableError
from mqclient.latency_fault import LatencyFaults
from mqclient.outgoing import Outgoing, Prepare, into_namespace, prepare, prepare_batch
from mqclient.results import SendResult
from mqclient.routes import TopicRoute
from mqclient.send_path import SendPath
from mqclient.wire.codes import ResponseCode
from mqstore.message import Message, MessageQueue

__all__ = ["Failure", "QueueChooser", "Sender"]

RETRY_CODES = frozenset(
    map(
        int,
        (
            ResponseCode.TOPIC_NOT_EXIST,
            ResponseCode.SERVICE_NOT_AVAILABLE,
            ResponseCode.SYSTEM_ERROR,
            ResponseCode.NO_PERMISSION,
            ResponseCode.NO_BUYER_ID,
            ResponseCode.NOT_IN_CURRENT_UNIT,
        ),
    )
)
"""Answers after which another broker is tried; SYSTEM_BUSY is none, as in RocketMQ."""
PAUSE_FIRST, PAUSE_LAST = 0.1, 2.0
"""Most seconds until a failed broker is tried again: first, then doubling up to the last."""


class QueueChooser:
    """Takes the queues of a topic in turn; after a failure, prefers another broker."""

    def __init__(self, start: int | None) -> None:
        first = random.randrange(1 << 30) if start is None else start
        self.turn: Callable[[], int] = itertools.count(first).__next__
        """Gives the next place, of any number of them; to be taken modulo that number."""

    def choose(self, queues: Sequence[MessageQueue], failed_broker: str | None) -> MessageQueue:
        """The next queue. failed_broker: broker name to avoid, None on a first try."""
        for _ in queues:
            queue = queues[self.turn() % len(queues)]
            if queue.broker_name != failed_broker:
                return queue
        return queues[self.turn() % len(queues)]


class Failure(NamedTuple):
    """A failed try that another broker may mend.

    broker: name of the failed broker. error: None if it stored the message less durably.
    """

    broker: str
    error: Exception | None


class _SendPaths:
    """The paths of a topic's queues, until its route changes."""

    __slots__ = ("by_queue", "in_turn", "route", "turn")

    turn: Callable[[], int]
    """Of the topic's chooser, once it has a queue."""

    def __init__(self, route: TopicRoute | None) -> None:
        self.route = route
        self.by_queue: dict[MessageQueue, SendPath] = {}
        self.in_turn: list[SendPath] = []
        """Those of the route's queues, in its order: a queue's hash costs as much as its request.
        Empty until somebody sends to the queues in turn."""


class Sender:
    """Sends prepared messages of one producer group."""

    def __init__(self, client: Client, settings: ProducerSettings) -> None:
        self._client = client
        self.settings = settings
        self._choosers: dict[str, QueueChooser] = {}
        self._paths: dict[str, _SendPaths] = {}
        self._faults = LatencyFaults() if settings.latency_fault else None
        self.on_sent: Callable[[Outgoing, SendResult, int], None] | None = None
        """Told of each stored message, with the time when its send began, in milliseconds; by the
        methods `send_anywhere` and `send_to` only."""
        self.prepare: Prepare = prepare
        """Makes a message ready to send."""
        if client.namespace:
            self.prepare = self._prepare_in_namespace

    def _prepare_in_namespace(self, message: Message, settings: ProducerSettings) -> Outgoing:
        return into_namespace(self._client.namespace, prepare(message, settings))

    def prepare_with(self, message: Message, more: Mapping[str, str]) -> Outgoing:
        """As `prepare`, with more properties, which may be RocketMQ's own."""
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
        self, topic: str, route: TopicRoute, failed_broker: str | None = None
    ) -> MessageQueue:
        """The next queue of a topic, if possible not on the failed broker."""
        chooser = self._chooser(topic)
        if self._faults is not None:
            return self._faults.choose(route.publish, chooser.turn)
        return chooser.choose(route.publish, failed_broker)

    def _chooser(self, topic: str) -> QueueChooser:
        chooser = self._choosers.get(topic)
        if chooser is None:
            chooser = self._choosers[topic] = QueueChooser(self.settings.queue_index_start)
        return chooser

    async def send_anywhere(self, outgoing: Outgoing, timeout: float) -> SendResult:
        """Try up to 1 + retries brokers; each try may use all the remaining time.

        timeout: seconds for all tries. Raises as Producer.send does.
        """
        trying = self.try_on(outgoing, time.monotonic(), timeout, None)
        return await (trying if self.on_sent is None else self._told(outgoing, trying))

    async def _told(self, outgoing: Outgoing, sending: Awaitable[SendResult]) -> SendResult:
        started_ms = time.time_ns() // 1_000_000
        result = await sending
        if self.on_sent is not None:
            self.on_sent(outgoing, result, started_ms)
        return result

    def judge(self, path: SendPath, outgoing: Outgoing, answer: Any) -> SendResult | Failure:
        """The result of the first try. answer: the broker's, or the error of the send.

        Raises what another broker would answer too.
        """
        try:
            if isinstance(answer, Exception):
                raise answer
            result = path.result(answer, outgoing)
        except (UnreachableError, ClientTimeout, BrokerError) as error:
            return _judge(path, error)
        if self._too_little(result, self.settings.retries):
            return Failure(path.queue.broker_name, None)
        return result

    async def try_on(
        self, outgoing: Outgoing, started: float, timeout: float, failure: Failure | None
    ) -> SendResult:
        """The remaining tries, after fetching the route if there is none.

        started: start of the first try, on the monotonic clock. timeout: seconds from then.
        """
        deadline = started + timeout
        topic = outgoing.topic
        failed_broker, last_error = failure or (None, None)
        failed = {failed_broker}
        pauses = _pauses()
        for tries_left in range(self.settings.retries - (failure is not None), -1, -1):
            route = await self.route(topic, deadline - time.monotonic())
            chosen = self.choose(topic, route, failed_broker)
            if last_error is not None:
                if chosen.broker_name in failed:  # no fresh one: it may be restarting
                    left = deadline - time.monotonic()
                    await asyncio.sleep(max(0.0, min(next(pauses), left / 2)))
                if time.monotonic() >= deadline:
                    break
            failed.add(chosen.broker_name)
            failed_broker = chosen.broker_name
            path = self._path(chosen)
            try_started = time.monotonic()
            left = max(0.001, deadline - try_started)
            try:
                result = path.result(await path.send(outgoing, left), outgoing)
                self._note(chosen, try_started)
            except (UnreachableError, ClientTimeout, BrokerError) as error:
                self._note(chosen, try_started, failed=True)
                last_error = _judge(path, error).error
            else:
                if not self._too_little(result, tries_left):
                    return result
        assert last_error is not None
        if time.monotonic() < deadline:
            raise last_error
        raise ClientTimeout(
            f"message {outgoing.msg_id} was not acknowledged within {timeout:g} s "
            f"(last: {last_error}); it may be stored nevertheless"
        ) from last_error

    def _note(self, queue: MessageQueue, started: float, *, failed: bool = False) -> None:
        """Remember how long a try took, if slow brokers are avoided."""
        if self._faults is not None:
            self._faults.note(queue.broker_name, time.monotonic() - started, failed=failed)

    async def send_to(self, outgoing: Outgoing, queue: MessageQueue, timeout: float) -> SendResult:
        """Send to one queue, once. timeout: seconds."""
        sending = self._send_once(outgoing, queue, timeout)
        return await (sending if self.on_sent is None else self._told(outgoing, sending))

    async def _send_once(
        self, outgoing: Outgoing, queue: MessageQueue, timeout: float
    ) -> SendResult:
        path = self._path(queue)
        try:
            return path.result(await path.send(outgoing, max(0.001, timeout)), outgoing)
        except UnreachableError as error:
            explained = path.explain(error)
            raise explained from explained.__cause__

    async def oneway_to(self, outgoing: Outgoing, queue: MessageQueue, timeout: float) -> None:
        """Send to one queue without an answer; returns when the bytes are written."""
        path = self._path(queue)
        try:
            await path.oneway(outgoing, timeout)
        except UnreachableError as error:
            explained = path.explain(error)
            raise explained from explained.__cause__

    def _too_little(self, result: SendResult, tries_left: int) -> bool:
        """Whether another broker must store a message too, because one stored it less durably."""
        return bool(result.lesser and self.settings.retry_not_durable and tries_left)

    def next_path(self, topic: str) -> SendPath | None:
        """The path of the topic's next queue; None if its route must be fetched."""
        paths = self._paths.get(topic)
        in_turn = paths.in_turn if paths is not None else ()
        if paths is None or not in_turn or paths.route is not self._client.routes.table.get(topic):
            return self._first_path(topic)
        return in_turn[paths.turn() % len(in_turn)]

    def _first_path(self, topic: str) -> SendPath | None:
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

    def _path(self, queue: MessageQueue) -> SendPath:
        """The path of a queue, replaced if the topic's route has changed."""
        route = self._client.routes.known(queue.topic)
        paths = self._paths.get(queue.topic)
        if paths is None or paths.route is not route:
            paths = self._paths[queue.topic] = _SendPaths(route)
        path = paths.by_queue.get(queue)
        if path is None:
            path = SendPath(self._client, self.settings, queue)
            if route is not None and queue.broker_name in route.brokers:
                paths.by_queue[queue] = path  # else the address comes from another topic's route
        return path


def _pauses() -> Iterator[float]:
    """Seconds before each new try of a failed broker; random, so that producers do not align."""
    longest = PAUSE_FIRST
    while True:
        yield longest * random.uniform(0.5, 1.0)
        longest = min(longest * 2, PAUSE_LAST)


def _judge(path: SendPath, error: Exception) -> Failure:
    """Classify a failed try: raise errors that another broker would give too."""
    if isinstance(error, BrokerError) and error.code not in RETRY_CODES:
        raise error
    return Failure(path.queue.broker_name, path.explain(error))

"""The producer's asyncio face; sender.py does the sending."""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from typing import Any

from mqclient.engine.async_client import AsyncClient
from mqclient.engine.client import Client
from mqclient.engine.metrics import counting_sends
from mqclient.engine.middleware import Middleware, SendContext, around_await
from mqclient.engine.serializing import V
from mqclient.errors import (
    BrokerError,
    ClientTimeout,
    PartialSendError,
    RocketMQError,
    UnreachableError,
)
from mqclient.producer.in_flight import Accepted, InFlight, size_of
from mqclient.producer.linger import LingeringBatches
from mqclient.producer.outgoing import Outgoing
from mqclient.producer.posts import Posts
from mqclient.producer.queue_choice import (
    OrderKey,
    QueueChoice,
    Selector,
    chosen_queue,
    queue_choice,
)
from mqclient.producer.request_reply import Requests
from mqclient.producer.results import PartsResult, SendResult
from mqclient.producer.sender import Sender
from mqclient.producer.values import MessageMaker
from mqclient.settings.checks import answer_timeout, check_topic, seconds
from mqclient.settings.declare import explained, takes
from mqclient.settings.producers import ProducerOptions, SendOptions
from mqclient.trace.dispatcher import TraceDispatcher
from mqclient.trace.send_hook import SendTrace
from mqcommon.message import DELIVER_AT, Message, MessageQueue, ReceivedMessage
from mqcommon.wire.bodies.route import MASTER_ID
from mqcommon.wire.codes import VERSION_5_0_0
from mqcommon.wire.frame import Frame

__all__ = ["Producer"]


@explained
class Producer(AsyncClient, MessageMaker[V]):
    """Sends messages. The asyncio face; `mqclient.Producer` is the same for threads.

    It may be built without a running loop, and belongs to the loop that starts it.

        async with Producer("127.0.0.1:9876") as producer:
            result = await producer.send(Message("TopicTest", b"Hello RocketMQ", tags="TagA"))
    """

    settings: SendOptions[V]

    @takes(ProducerOptions)
    def __init__(self, options: ProducerOptions[V]) -> None:
        self._build(options)

    def _build(self, options: SendOptions[V]) -> None:
        self.settings = options
        self._serializer = options.serializer
        self._client = Client(options)
        self._client.add_producer(options.group)
        self._sender = Sender(self._client, options)
        self._requests = Requests(self._client, self._sender)
        self._linger: LingeringBatches | None = None
        if options.linger is not None:
            self._linger = LingeringBatches(
                self._sender, options, options.linger, self._prepare, self._client.check_loop
            )
        self._middleware = sends_middleware(options)
        self._in_flight = InFlight(options.limits)
        self._posts = Posts(self._client, self._sender, self._in_flight)
        self._trace: SendTrace | None = None
        if options.trace is not None:
            self._dispatcher = TraceDispatcher(
                self._client, options.trace.topic, options.group, "PRODUCE"
            )
            self._trace = SendTrace(self._client, self._dispatcher)
            self._sender.on_sent = self._trace.sent
        metrics = options.metrics
        if metrics is not None:
            self._sender.on_retry = lambda topic: metrics.add(
                "send_retries", 1, {"group": options.group, "topic": topic}
            )

    # --- life

    async def start(self) -> None:
        """Start the producer; only the first send needs the NameServer."""
        await self._client.start(self._begin)

    async def _begin(self) -> None:
        if self._trace is not None:
            self._dispatcher.start()

    async def close(self, timeout: float = 20.0) -> None:
        """Send what lingers, wait for the sends under way, unregister, leave the connections.

        timeout: seconds. Pending requests end with ClosedError. Sends that have no answer by then
        end with ClosedError if no other client has the connections.
        """
        self._client.check_loop()
        deadline = time.monotonic() + seconds(timeout)
        self._requests.close()
        if self._linger is not None:
            await self._linger.close(max(0.0, deadline - time.monotonic()))
        if self._client.running:
            await self._in_flight.flush(max(0.0, deadline - time.monotonic()))
        if self._trace is not None and self._client.running:
            await self._dispatcher.close()
        await self._client.close(max(0.0, deadline - time.monotonic()))

    async def flush(self, timeout: float = 20.0) -> None:
        """Wait until every message that was accepted so far has its result or its error.

        Accepted are sends, one-way sends and requests under way; what waits for others (`linger`)
        leaves at once. Errors stay with their sends or futures. timeout: seconds.
        Raises ClientTimeout with the number of messages that are left; they stay under way.
        """
        limit = seconds(timeout)
        self._client.check_running()
        with contextlib.nullcontext() if self._linger is None else self._linger.hurried():
            left = await self._in_flight.flush(limit)
        if left:
            raise ClientTimeout(
                f"{left} messages have no result after {limit:.3g} s; call flush again, or wait "
                "for the single sends, which end within their own timeouts"
            )

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.settings.group} {self._client.client_id}>"

    # --- sending

    async def send(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """Send a message, or several of one topic as a batch, and wait until it is stored.

        queue: send to this queue only; None takes the queues in turn, after a failure of other
        brokers first. order_key: messages with the same key go to the same queue while the topic
        has the same number of queues. selector: a function that gets the queues and the message,
        and returns the queue. Only one of the three may be given. A batch over body_bytes_max is
        sent in parts, one after the other; see SendResult.parts.
        timeout: seconds for the send and its retries; None means the producer's (3 s).
        Returns a SendResult whose status may be less than SEND_OK; see raise_for_status().
        Raises ValueError or TypeError for what cannot be sent, NoRouteError, BrokerError,
        UnreachableError, ClientTimeout (the message may be stored even so), PartialSendError,
        ClosedError.
        """
        if not self._client.running:
            self._client.check_running()
        limit = self.settings.timeout if timeout is None else answer_timeout(timeout)
        count, size = (1, len(message.body)) if type(message) is Message else size_of(message)
        accepted = self._in_flight.accept(count, size)
        if accepted is None:
            accepted, limit = await self._wait_for_room(count, size, limit)
        try:
            if (
                queue is not None
                or order_key is not None
                or selector is not None
                or self._middleware
            ):
                choice = queue_choice(queue, order_key, selector)
                return await self._send_accepted(message, choice, limit)
            if type(message) is Message:  # the usual case, with one call fewer
                if DELIVER_AT in message.properties:
                    return await self._send_accepted(message, None, limit)
                if self._linger is not None:
                    batch, future = self._linger.add(message, None, limit)
                    return batch.result(await future)
                outgoing = self._sender.prepare(message, self.settings)
            else:
                parts = self._prepare(message)
                if len(parts) > 1:
                    return await self._send_parts(message, parts, None, limit)
                outgoing = parts[0]
            sender = self._sender
            started = time.monotonic()
            path = sender.next_path(outgoing.topic)
            if path is None:
                return await sender.send_anywhere(outgoing, limit)
            # The route is known: send here, not in the sender, to save one coroutine.
            try:
                answer = await path.send(outgoing, limit)
                if type(answer) is not Frame and answer.code == 0:
                    return SendResult(answer, outgoing.msg_id, path.shown)
            except (UnreachableError, ClientTimeout, BrokerError) as error:
                answer = error
            outcome = sender.judge(path, outgoing, answer)
            if isinstance(outcome, SendResult):
                return outcome
            return await sender.try_on(outgoing, started, limit, outcome)
        finally:
            accepted.leave(count, size)

    async def _wait_for_room(self, count: int, size: int, timeout: float) -> tuple[Accepted, float]:
        """Accept a send when there is room; returns the rest of its time too."""
        started = time.monotonic()
        accepted = await self._in_flight.wait(count, size, timeout)
        return accepted, max(0.001, timeout - (time.monotonic() - started))

    def _send_from_thread(
        self, message: Message | Sequence[Message], timeout: float | None
    ) -> SendResult | Coroutine[Any, Any, SendResult]:
        """For the blocking face: `send` in the caller's thread, without the loop.

        Returns a coroutine for the loop if the loop must act, for example to fetch a route. The
        limits do not count it, because it holds its thread until its answer.
        """
        if not self._client.running:
            self._client.check_running()
        limit = self.settings.timeout if timeout is None else answer_timeout(timeout)
        if self._linger is not None:
            return self._send_chosen(message, None, limit)
        if type(message) is Message:
            if DELIVER_AT in message.properties:
                return self._send_chosen(message, None, limit)
            outgoing = self._sender.prepare(message, self.settings)
        else:
            parts = self._prepare(message)
            if len(parts) > 1:
                return self._send_parts(message, parts, None, limit)
            outgoing = parts[0]
        started = time.monotonic()
        sender = self._sender
        path = sender.next_path(outgoing.topic)
        if path is None or not path.blocks:
            return sender.send_anywhere(outgoing, limit)
        try:
            answer = path.call(outgoing, limit)
            if type(answer) is not Frame and answer.code == 0:
                return SendResult(answer, outgoing.msg_id, path.shown)
        except (UnreachableError, ClientTimeout, BrokerError) as error:
            answer = error
        outcome = sender.judge(path, outgoing, answer)
        if isinstance(outcome, SendResult):
            return outcome
        return sender.try_on(outgoing, started, limit, outcome)

    async def send_oneway(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
    ) -> None:
        """Send once, without an answer: the caller does not learn whether it was stored.

        queue, order_key, selector: as for `send`. Returns when the bytes are written. Raises like
        `send` for errors until then.
        """
        self._client.check_running()
        choice = queue_choice(queue, order_key, selector)
        await self._around("oneway", message, lambda: self._send_oneway(message, choice))

    async def _send_oneway(
        self, message: Message | Sequence[Message], choice: QueueChoice | None
    ) -> None:
        """`send_oneway` without middleware."""
        self._client.check_running()
        async with self._counted(message, self.settings.timeout) as left:
            await self._oneway(message, choice, left)

    @contextlib.asynccontextmanager
    async def _counted(
        self, message: Message | Sequence[Message], timeout: float
    ) -> AsyncIterator[float]:
        """Wait for room in flight and hold it; gives the rest of the timeout in seconds."""
        count, size = size_of(message)
        accepted, left = self._in_flight.accept(count, size), timeout
        if accepted is None:
            accepted, left = await self._wait_for_room(count, size, timeout)
        try:
            yield left
        finally:
            accepted.leave(count, size)

    async def _oneway(
        self, message: Message | Sequence[Message], choice: QueueChoice | None, limit: float
    ) -> None:
        parts = self._prepare(message)
        await self._check_delivery(message, limit)
        for outgoing in parts:
            chosen = await self._choose(choice, _first(message), limit)
            if chosen is None:
                route = await self._sender.route(outgoing.topic, limit)
                chosen = self._sender.choose(outgoing.topic, route)
            await self._sender.oneway_to(outgoing, chosen, limit)

    async def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
    ) -> ReceivedMessage:
        """Send a message and wait for the message that a consumer replies with.

        queue, order_key, selector: as for `send`. timeout: seconds for the send, its retries and
        the reply; None means the producer's (3 s). The consumer makes its reply with
        `mqclient.reply`.
        Raises ClientTimeout when no reply comes, else as `send` does.
        """
        self._client.check_running()
        choice = queue_choice(queue, order_key, selector)
        limit = self.settings.timeout if timeout is None else answer_timeout(timeout)
        async with self._counted(message, limit) as left:
            reply: ReceivedMessage = await self._around(
                "request", message, lambda: self._request(message, choice, left)
            )
            return reply

    async def _request(
        self, message: Message, choice: QueueChoice | None, timeout: float
    ) -> ReceivedMessage:
        """`request` after the message was counted."""
        if not isinstance(message, Message):
            raise TypeError(f"a request is one Message, not {type(message).__name__}")
        deadline = time.monotonic() + timeout
        await self._check_delivery(message, timeout)
        chosen = await self._choose(choice, message, timeout)
        return await self._requests.request(message, chosen, deadline - time.monotonic())

    async def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that accept sends, in RocketMQ's order.

        Raises NoRouteError if there is none.
        """
        self._client.check_running()
        return await self._queues(check_topic(topic), self.settings.timeout)

    async def _queues(self, topic: str, timeout: float) -> list[MessageQueue]:
        names = self._client.namespace
        route = await self._sender.route(names.wrap(topic), timeout)
        return names.unwrap_queues(route.publish)

    def _prepare(self, message: Message | Sequence[Message]) -> list[Outgoing]:
        if isinstance(message, Message):
            return [self._sender.prepare(message, self.settings)]
        if isinstance(message, (list, tuple)):
            return self._sender.prepare_batch(message)
        raise TypeError(f"send takes a Message or a list of them, not {type(message).__name__}")

    async def _check_delivery(self, message: Message | Sequence[Message], timeout: float) -> None:
        """Raise RocketMQError for deliver_at if a broker of the topic does not support it."""
        if not isinstance(message, Message) or DELIVER_AT not in message.properties:
            return
        deadline = time.monotonic() + timeout
        topic = self._client.namespace.wrap(message.topic)
        route = await self._sender.route(topic, timeout)
        await self._client.introduce(topic, deadline - time.monotonic())
        for name in {queue.broker_name for queue in route.publish}:
            address = route.brokers.get(name, {}).get(MASTER_ID, "")
            version = self._client.broker_versions.get(address)
            if version is None or version < VERSION_5_0_0:
                what = "did not say its version" if version is None else "is older than RocketMQ 5"
                raise RocketMQError(
                    f"broker {name} at {address} {what}, so it may deliver the message at once; "
                    f"leave deliver_at out, or use delay_level"
                )

    async def _send_accepted(
        self, message: Message | Sequence[Message], choice: QueueChoice | None, timeout: float
    ) -> SendResult:
        """`send` after the message was counted: with middleware, to a queue, or with linger."""
        sent: SendResult = await self._around(
            "send", message, lambda: self._send_chosen(message, choice, timeout)
        )
        return sent

    async def _around(
        self, operation: str, message: object, work: Callable[[], Awaitable[Any]]
    ) -> Any:
        """Await `work()` with the middleware around it."""
        return await around_await(self._middleware, (message, SendContext(operation)), work)

    async def _send_chosen(
        self, message: Message | Sequence[Message], choice: QueueChoice | None, timeout: float
    ) -> SendResult:
        """`send` without middleware: to a queue, or with linger."""
        self._client.check_loop()
        if self._linger is not None and isinstance(message, Message):
            await self._check_delivery(message, timeout)
            queue = await self._choose(choice, message, timeout)
            batch, future = self._linger.add(message, queue, timeout)
            return batch.result(await future)
        return await self._send_parts(message, self._prepare(message), choice, timeout)

    async def _choose(
        self, choice: QueueChoice | None, message: Message, timeout: float
    ) -> MessageQueue | None:
        """The queue that the caller chose, as the wire has it; None to take the next one."""
        if choice is None:
            return None
        if choice.queue is not None:  # refused before a NameServer is asked
            chosen_queue(choice, (), message)
        queues = await self._queues(message.topic, timeout)
        return self._client.namespace.wrap_queue(chosen_queue(choice, queues, message))

    async def _send_parts(
        self,
        message: Message | Sequence[Message],
        parts: Sequence[Outgoing],
        choice: QueueChoice | None,
        timeout: float,
    ) -> SendResult:
        """Send a message or the parts of a batch in order. timeout: seconds for all of them."""
        deadline = time.monotonic() + timeout
        results: list[SendResult] = []
        await self._check_delivery(message, timeout)
        chosen = await self._choose(choice, _first(message), timeout)
        for outgoing in parts:
            left = deadline - time.monotonic()
            try:
                if chosen is None:
                    results.append(await self._sender.send_anywhere(outgoing, left))
                else:
                    results.append(await self._sender.send_to(outgoing, chosen, left))
            except RocketMQError as error:
                if not results:
                    raise
                raise PartialSendError(
                    f"the first {len(results)} of {len(parts)} parts of the batch are stored, then "
                    f"a part failed ({error}); send only the messages that are not in `results`",
                    results,
                ) from error
        return results[0] if len(parts) == 1 else PartsResult(results)


def sends_middleware(options: SendOptions[Any]) -> tuple[Middleware, ...]:
    """What goes around each send, of both faces."""
    own = tuple(options.middleware)
    if options.metrics is None:
        return own
    return (counting_sends(options.metrics, options.group), *own)


def _first(message: Message | Sequence[Message]) -> Message:
    return message if isinstance(message, Message) else message[0]

"""The blocking producer."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from mqclient.blocking.derive import like, sync
from mqclient.blocking.sync_client import SyncClient
from mqclient.engine.middleware import SendContext, around, around_future, check_kind
from mqclient.engine.serializing import V
from mqclient.producer.in_flight import size_of
from mqclient.producer.posted_send import OnSent, PostedOneway
from mqclient.producer.posts import told
from mqclient.producer.producer import Producer as AsyncProducer
from mqclient.producer.producer import sends_middleware
from mqclient.producer.queue_choice import OrderKey, QueueChoice, Selector, queue_choice
from mqclient.producer.results import SendResult
from mqclient.producer.values import MessageMaker
from mqclient.settings.checks import answer_timeout
from mqclient.settings.declare import explained, made_of, takes
from mqclient.settings.producers import ProducerOptions, SendOptions
from mqcommon.message import Message, MessageQueue, ReceivedMessage

__all__ = ["Producer"]

Sent = TypeVar("Sent")


@explained
class Producer(SyncClient, MessageMaker[V]):
    """Sends messages; safe to share among threads.

    with Producer("127.0.0.1:9876") as producer:
        print(producer.send(Message("TopicTest", b"Hello RocketMQ", tags="TagA")))
    """

    if TYPE_CHECKING:
        _async: AsyncProducer[V]

    _unclosed_timeout = 5.0

    @takes(ProducerOptions)
    def __init__(self, options: ProducerOptions[V]) -> None:
        super().__init__(made_of(AsyncProducer, options))
        self._set_up(options)

    def _set_up(self, options: SendOptions[V]) -> None:
        self._serializer = options.serializer
        self._middleware = sends_middleware(options)
        for one in self._middleware:
            check_kind(one, type(self), on_loop=False)
        self._is_direct = options.linger is None and not self._middleware
        """Whether sends that name no queue need not go by the loop."""

    @property
    def _is_busy(self) -> bool:
        sends = self._thread is not None and self._async._in_flight.messages > 0
        return sends or super()._is_busy

    @like(AsyncProducer.send)
    def send(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
    ) -> SendResult:
        """A selector runs on the producer's own thread."""
        thread = self._thread or self._running
        if self._middleware:
            choice = queue_choice(queue, order_key, selector)
            sent: SendResult = around(
                self._middleware,
                (message, SendContext("send")),
                lambda: self._send_on_loop(message, choice, timeout),
            )
            return sent
        if queue is not None or order_key is not None or selector is not None:
            return self._send_on_loop(message, queue_choice(queue, order_key, selector), timeout)
        thread.check_caller()
        outcome: SendResult | Coroutine[Any, Any, SendResult]
        outcome = self._async._send_from_thread(message, timeout)
        return outcome if isinstance(outcome, SendResult) else thread.run(outcome)

    def _send_on_loop(
        self,
        message: Message | Sequence[Message],
        choice: QueueChoice | None,
        timeout: float | None,
    ) -> SendResult:
        limit = self._async.settings.timeout if timeout is None else answer_timeout(timeout)
        return self._running.run(self._async._send_chosen(message, choice, limit))

    def send_async(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
        on_done: OnSent | None = None,
    ) -> Future[SendResult]:
        """Like `send`, but return at once: the future gets the result or the exception.

        Over `limits`, it waits for room first. Raises BackPressureTimeout if none comes in time.
        on_done: called with the result or None, and the exception or None, on the
        producer's own thread, which must not be kept waiting. `cancel` of a future whose message
        was handed to its connection returns False.
        """
        thread = self._thread or self._running
        is_plain = queue is None and order_key is None and selector is None
        if is_plain and self._is_direct and thread.usable:
            posted = self._async._posts.post(message, timeout, on_done)
            if posted is not None:
                return posted
        choice = queue_choice(queue, order_key, selector)
        future = self._submit(
            "send",
            message,
            timeout,
            lambda left: self._async._send_chosen(message, choice, left),
        )
        if on_done is not None:
            future.add_done_callback(told(on_done))
        if choice is None:
            self._async._posts.wait_for(future)
        return future

    def request_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
    ) -> Future[ReceivedMessage]:
        """Like `request`, but with a future, as `send_async` does."""
        choice = queue_choice(queue, order_key, selector)
        return self._submit(
            "request", message, timeout, lambda left: self._async._request(message, choice, left)
        )

    def _submit(
        self,
        operation: str,
        message: Message | Sequence[Message],
        timeout: float | None,
        work: Callable[[float], Coroutine[Any, Any, Sent]],
    ) -> Future[Sent]:
        """Start `work(seconds left)` with the middleware around it."""
        if not self._middleware:
            return self._begin(message, timeout, work)
        return around_future(
            self._middleware,
            (message, SendContext(operation)),
            lambda: self._begin(message, timeout, work),
        )

    def _begin(
        self,
        message: Message | Sequence[Message],
        timeout: float | None,
        work: Callable[[float], Coroutine[Any, Any, Sent]],
    ) -> Future[Sent]:
        """Wait for room in the caller's thread, then start `work(seconds left)` on the loop."""
        thread = self._running
        left = self._async.settings.timeout if timeout is None else answer_timeout(timeout)
        in_flight, (count, size) = self._async._in_flight, size_of(message)
        accepted = in_flight.accept(count, size)
        if accepted is None:
            thread.check_caller()  # a callback of a future must not wait for others
            started = time.monotonic()
            accepted = in_flight.block(count, size, left)
            left = max(0.001, left - (time.monotonic() - started))
        try:
            future = thread.submit(work(left))
        except BaseException:
            accepted.leave(count, size)
            raise
        future.add_done_callback(lambda _future: accepted.leave(count, size))
        return future

    @like(AsyncProducer.send_oneway)
    def send_oneway(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
    ) -> None:
        """Returns when the message was handed to its connection; a later error is only logged, as
        RocketMQ's Java client does. `flush` waits until all bytes are written.
        """
        thread = self._thread or self._running
        is_plain = queue is None and order_key is None and selector is None
        if (
            is_plain
            and self._is_direct
            and thread.usable
            and self._async._posts.post(message, None, kind=PostedOneway)
        ):
            return
        choice = queue_choice(queue, order_key, selector)
        around(
            self._middleware,
            (message, SendContext("oneway")),
            lambda: thread.run(self._async._send_oneway(message, choice)),
        )

    @like(AsyncProducer.request)
    def request(  # noqa: D102
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
    ) -> ReceivedMessage:
        choice, thread = queue_choice(queue, order_key, selector), self._running
        limit = self._async.settings.timeout if timeout is None else answer_timeout(timeout)
        reply: ReceivedMessage = around(
            self._middleware,
            (message, SendContext("request")),
            lambda: thread.run(self._async._request(message, choice, limit)),
        )
        return reply

    flush = sync(AsyncProducer.flush)
    queues = sync(AsyncProducer.queues)

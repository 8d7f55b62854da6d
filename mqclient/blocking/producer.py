"""The blocking producer."""

from collections.abc import Coroutine, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from mqclient.blocking.derive import in_future, like, sync
from mqclient.blocking.sync_client import SyncClient
from mqclient.producer.producer import Producer as AsyncProducer
from mqclient.producer.queue_choice import OrderKey, Selector, queue_choice
from mqclient.producer.results import SendResult
from mqclient.settings.declare import explained, made_of, takes
from mqclient.settings.producers import ProducerOptions
from mqcommon.message import Message, MessageQueue

__all__ = ["Producer"]


@explained
class Producer(SyncClient):
    """Sends messages; safe to share among threads.

    with Producer("127.0.0.1:9876") as producer:
        print(producer.send(Message("TopicTest", b"Hello RocketMQ", tags="TagA")))
    """

    if TYPE_CHECKING:
        _async: AsyncProducer

    _unclosed_timeout = 5.0

    @takes(ProducerOptions)
    def __init__(self, options: ProducerOptions) -> None:
        super().__init__(made_of(AsyncProducer, options))

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
        if queue is not None or order_key is not None or selector is not None:
            return thread.run(
                self._async.send(
                    message,
                    queue=queue,
                    order_key=order_key,
                    selector=selector,
                    timeout=timeout,
                )
            )
        thread.check_caller()
        outcome: SendResult | Coroutine[Any, Any, SendResult]
        outcome = self._async._send_from_thread(message, timeout)
        return outcome if isinstance(outcome, SendResult) else thread.run(outcome)

    def send_async(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
    ) -> "Future[SendResult]":
        """Like `send`, but return at once: the future gets the result or the exception.

        With `limits=SendLimits(...)` it waits for room first, and raises
        BackPressureTimeout if none comes within the timeout.
        """
        thread = self._running
        if self._async._limited:
            choice = queue_choice(queue, order_key, selector)
            thread.run(self._async._admit(message, timeout))
            return thread.submit(self._async._send_admitted(message, choice, timeout))
        return thread.submit(
            self._async.send(
                message, queue=queue, order_key=order_key, selector=selector, timeout=timeout
            )
        )

    send_oneway = sync(AsyncProducer.send_oneway)
    request = sync(AsyncProducer.request)
    request_async = in_future(AsyncProducer.request, "request_async")
    queues = sync(AsyncProducer.queues)

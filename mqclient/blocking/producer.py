"""The blocking producer."""

from collections.abc import Sequence
from concurrent.futures import Future

from mqclient.blocking.sync_client import SyncClient
from mqclient.producer.producer import Producer as AsyncProducer
from mqclient.producer.queue_choice import OrderKey, Selector, queue_choice
from mqclient.producer.results import SendResult
from mqclient.settings.declare import explained, made_of, takes
from mqclient.settings.producers import ProducerOptions
from mqcommon.message import Message, MessageQueue, ReceivedMessage

__all__ = ["Producer"]


@explained
class Producer(SyncClient[AsyncProducer]):
    """Sends messages; safe to share among threads.

    with Producer("127.0.0.1:9876") as producer:
        print(producer.send(Message("TopicTest", b"Hello RocketMQ", tags="TagA")))
    """

    _unclosed_timeout = 5.0

    @takes(ProducerOptions)
    def __init__(self, options: ProducerOptions) -> None:
        super().__init__(made_of(AsyncProducer, options))

    def send(
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
        and returns the queue; it runs on the producer's own thread. Only one of the three may be
        given. A batch over body_bytes_max is sent in parts, one after the other; see
        SendResult.parts.
        timeout: seconds for the send and its retries; None means the producer's (3 s).
        Returns a SendResult whose status may be less than SEND_OK; see raise_for_status().
        Raises ValueError or TypeError for what cannot be sent, NoRouteError, BrokerError,
        UnreachableError, ClientTimeout (the message may be stored even so), PartialSendError,
        ClosedError.
        """
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
        outcome = self._async.send_from_thread(message, timeout)
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

        With in_flight_max or in_flight_bytes_max it waits for room first, and raises
        BackPressureTimeout if none comes within the timeout.
        """
        thread = self._running
        if self._async.limited:
            choice = queue_choice(queue, order_key, selector)
            thread.run(self._async.admit(message, timeout))
            return thread.submit(self._async.send_admitted(message, choice, timeout))
        return thread.submit(
            self._async.send(
                message, queue=queue, order_key=order_key, selector=selector, timeout=timeout
            )
        )

    def send_oneway(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
    ) -> None:
        """Send once, without an answer: the caller does not learn whether it was stored.

        queue, order_key, selector: as for `send`.
        """
        self._running.run(
            self._async.send_oneway(message, queue=queue, order_key=order_key, selector=selector)
        )

    def request(
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
        return self._running.run(
            self._async.request(
                message, queue=queue, order_key=order_key, selector=selector, timeout=timeout
            )
        )

    def request_async(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
        timeout: float | None = None,
    ) -> "Future[ReceivedMessage]":
        """Like `request`, but return at once: the future gets the reply or the exception."""
        return self._running.submit(
            self._async.request(
                message, queue=queue, order_key=order_key, selector=selector, timeout=timeout
            )
        )

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that accept sends; raises NoRouteError if there is none."""
        return self._running.run(self._async.queues(topic))

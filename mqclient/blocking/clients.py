"""The blocking faces: each runs its asyncio twin on the loop thread that they all share."""

import sys
import threading
from collections.abc import Callable, Coroutine, Iterable, Sequence
from concurrent.futures import Future
from typing import Any, Generic, Self, TypeVar, Unpack

from mqclient.blocking.loop_thread import CallbackThread, LoopThread
from mqclient.blocking.unclosed import close_at_exit, close_unclosed
from mqclient.consumer.context import Handler, MessageFunction
from mqclient.consumer.push.consumer import PushConsumer as AsyncPushConsumer
from mqclient.consumer.subscription import (
    SqlFilter,
    Subscription,
    check_decorator,
    message_subscription,
    subscription_of,
)
from mqclient.engine.client import TransportLike
from mqclient.errors import ClosedError
from mqclient.producer.producer import Producer as AsyncProducer
from mqclient.producer.queue_choice import OrderKey, Selector, queue_choice
from mqclient.producer.results import SendResult
from mqclient.settings.clients import Duration, ProducerOptions
from mqclient.settings.consumers import ConsumerOptions
from mqcommon.message import Message, MessageQueue, ReceivedMessage
from mqcommon.signals import SignalSafeEvent, catching_signals

__all__ = ["BlockingFace", "Producer", "PushConsumer"]

A = TypeVar("A", bound=Any)


class BlockingFace(Generic[A]):
    """Base of every blocking client: a twin with async start() and close(), and its loop.

    callbacks: where the twin's `async def` callbacks run, if it has some.
    """

    _unclosed_timeout = 0.0
    """Seconds for the work that a client has accepted when it ends without close()."""
    _is_consumer = False
    """Whether it works until it is closed; its work when it ends without close() is the handlers
    that run and the last commit."""

    def __init__(self, twin: A, callbacks: CallbackThread | None = None) -> None:
        self._twin = twin
        self._callbacks = callbacks
        self._thread: LoopThread | None = None
        self._lock = threading.RLock()  # a signal handler may close while another call starts
        self._over = SignalSafeEvent()
        self._is_starting = self._is_closed = False

    def start(self) -> None:
        """Start the client; `with` does this too. Raises like the asyncio face's start().

        A client that is started stays so. Of several threads at once one starts it, and the others
        wait.
        """
        self._open(self._twin.start)

    def _open(self, begin: Callable[[], Coroutine[Any, Any, object]]) -> None:
        with self._lock:
            starts = self._thread is None
            if starts:
                self._is_starting = True
                self._thread = LoopThread()
            thread = self._running
        if self._is_closed:
            thread.stop()
        try:
            thread.run(begin())
        except BaseException:
            if starts:
                self._thread = None
                thread.stop()
            raise
        if self._unclosed_timeout:
            close_at_exit(self)

    def close(self, timeout: Duration = 20.0) -> None:
        """Finish running work, leave the brokers, close the connections. May be called twice.

        timeout: seconds to wait for running work. In a forked child it only forgets the client.
        """
        thread = self._thread
        self._over.set()
        if thread is None:  # a signal handler may interrupt the beginning of start()
            self._is_closed = self._is_starting
        if thread is None or not thread.usable:
            return
        try:
            thread.run(self._twin.close(timeout))
        except ClosedError:
            if thread.usable:  # else another call has closed it meanwhile
                raise
        finally:
            thread.stop()
            if self._callbacks is not None:
                self._callbacks.stop()

    def __enter__(self) -> Self:
        self._open(self._twin.__aenter__)
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        if not sys.is_finalizing():  # else the loop runs no more
            close_unclosed(self)

    @property
    def _is_busy(self) -> bool:
        thread = self._thread
        return thread is not None and (thread.usable if self._is_consumer else thread.is_busy)

    def _close_soon(self) -> "Future[None] | None":
        thread: LoopThread | None = getattr(self, "_thread", None)
        if thread is None or not thread.usable:
            return None
        limit = self._unclosed_timeout
        # A thread may wait in a consumer's poll for ever: only the close ends that.
        return thread.stop_after(self._twin.close(limit), 0.0 if self._is_consumer else limit)

    def __repr__(self) -> str:
        return repr(self._twin)

    @property
    def client_id(self) -> str:
        """The id under which brokers know this client."""
        return str(self._twin.client_id)

    @property
    def _running(self) -> LoopThread:
        if self._thread is None:
            raise ClosedError("this client is not started; call start() or use `with`")
        return self._thread


class Producer(BlockingFace[AsyncProducer]):
    """Sends messages; safe to share among threads.

    namesrv: NameServer "host:port", several by ";" or as a list; None means NAMESRV_ADDR, else
    127.0.0.1:9876. Options: the fields of ProducerSettings and ClientSettings.

        with Producer("127.0.0.1:9876") as producer:
            print(producer.send(Message("TopicTest", b"Hello RocketMQ", tags="TagA")))
    """

    _unclosed_timeout = 5.0

    def __init__(
        self,
        namesrv: str | Iterable[str] | None = None,
        *,
        transport: TransportLike | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        super().__init__(AsyncProducer(namesrv, transport=transport, **options))

    def send(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
        timeout: Duration | None = None,
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
        UnreachableError, ClientTimeout (the message may be stored even so), PartlySent,
        ClosedError.
        """
        thread = self._thread or self._running
        if queue is not None or order_key is not None or selector is not None:
            return thread.run(
                self._twin.send(
                    message,
                    queue=queue,
                    order_key=order_key,
                    selector=selector,
                    timeout=timeout,
                )
            )
        thread.check_caller()
        outcome = self._twin.send_from_thread(message, timeout)
        return outcome if isinstance(outcome, SendResult) else thread.run(outcome)

    def send_async(
        self,
        message: Message | Sequence[Message],
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
        timeout: Duration | None = None,
    ) -> "Future[SendResult]":
        """Like `send`, but return at once: the future gets the result or the exception.

        With in_flight_max or in_flight_bytes_max it waits for room first, and raises
        BackPressureTimeout if none comes within the timeout.
        """
        thread = self._running
        if self._twin.limited:
            choice = queue_choice(queue, order_key, selector)
            thread.run(self._twin.admit(message, timeout))
            return thread.submit(self._twin.send_admitted(message, choice, timeout))
        return thread.submit(
            self._twin.send(
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
            self._twin.send_oneway(message, queue=queue, order_key=order_key, selector=selector)
        )

    def request(
        self,
        message: Message,
        *,
        queue: MessageQueue | None = None,
        order_key: OrderKey | None = None,
        selector: Selector | None = None,
        timeout: Duration | None = None,
    ) -> ReceivedMessage:
        """Send a message and wait for the message that a consumer replies with.

        queue, order_key, selector: as for `send`. timeout: seconds for the send, its retries and
        the reply; None means the producer's (3 s). The consumer makes its reply with
        `mqclient.reply`.
        Raises ClientTimeout when no reply comes, else as `send` does.
        """
        return self._running.run(
            self._twin.request(
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
        timeout: Duration | None = None,
    ) -> "Future[ReceivedMessage]":
        """Like `request`, but return at once: the future gets the reply or the exception."""
        return self._running.submit(
            self._twin.request(
                message, queue=queue, order_key=order_key, selector=selector, timeout=timeout
            )
        )

    def queues(self, topic: str) -> list[MessageQueue]:
        """The queues of a topic that accept sends; raises NoRouteError if there is none."""
        return self._running.run(self._twin.queues(topic))


class PushConsumer(BlockingFace[AsyncPushConsumer]):
    """Reads topics for a group and calls handlers in threads.

    group: consumer group; its members share the queues. namesrv: NameServer "host:port", several
    by ";" or as a list; None means NAMESRV_ADDR, else 127.0.0.1:9876. Options: the fields of
    ConsumerSettings and ClientSettings.

        with PushConsumer("order_readers", "127.0.0.1:9876") as consumer:
            consumer.subscribe("TopicTest", "TagA || TagB", handle)
            consumer.run()
    """

    _unclosed_timeout = 5.0
    _is_consumer = True

    def __init__(
        self,
        group: str,
        namesrv: str | Iterable[str] | None = None,
        *,
        transport: TransportLike | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> None:
        twin = AsyncPushConsumer(group, namesrv, transport=transport, **options)
        self._async_handlers = CallbackThread("mqclient-handlers")
        super().__init__(twin, self._async_handlers)

    def close(self, timeout: Duration = 20.0) -> None:
        """Stop pulling, let running handlers end, commit, leave the group. May be called twice.

        timeout: seconds for the handlers. Inside a handler it returns at once, and the rest
        happens when that handler has ended. In a forked child it only forgets the client.
        """
        if self._twin.in_handler:
            self._over.set()
            closing = threading.Thread(target=super().close, args=(timeout,), name="mqclient-close")
            closing.start()
            return
        super().close(timeout)

    def subscribe(self, topic: str, expression: str | SqlFilter, handler: Handler) -> None:
        """Read a topic; before or after the start, replacing an earlier subscription of it.

        expression: tags "TagA || TagB", "*" for every message, or a SqlFilter. handler: called
        with a list of messages and a ConsumeContext; None or ConsumeResult.SUCCESS acknowledges,
        an exception or anything else has them delivered again later. Plain functions run in
        `threads` threads; an `async def` runs on an event loop of the consumer's own, in a
        thread of its own.
        Every member of the group must have the same subscriptions. Raises TypeError, ValueError. A
        running consumer lets a broker check a SqlFilter: BrokerError if the broker refuses it,
        UnreachableError or ClientTimeout when none can be asked.
        """
        self._subscribe(subscription_of(topic, expression, self._async_handlers.wrap(handler)))

    def on_message(
        self, topic: str, expression: str | SqlFilter = "*"
    ) -> Callable[[MessageFunction], MessageFunction]:
        """Decorate a function that handles one message of a topic.

            @consumer.on_message("TopicTest", "TagA")
            def handle(message): ...

        None acknowledges the message; after an exception it comes again later. `batch_size` does
        not count for the function. Otherwise as `subscribe`.
        """

        check_decorator(topic, expression)

        def subscribe(function: MessageFunction) -> MessageFunction:
            handler = self._async_handlers.wrap(function)
            self._subscribe(message_subscription(topic, expression, handler))
            return function

        return subscribe

    def _subscribe(self, subscription: Subscription) -> None:
        if self._thread is None:
            self._twin.add(subscription)
        else:
            self._running.run(self._added(subscription))

    async def _added(self, subscription: Subscription) -> None:
        await self._twin.add(subscription)

    def unsubscribe(self, topic: str) -> None:
        """Stop reading a topic; unknown topics are ignored."""
        self._on_loop(self._twin.unsubscribe, topic)

    def suspend(self) -> None:
        """Pull no more messages until `resume`; messages already pulled are still handled.

        The consumer stays in its group, and keeps its queues.
        """
        self._on_loop(self._twin.suspend)

    def resume(self) -> None:
        """Pull again after `suspend`."""
        self._on_loop(self._twin.resume)

    def wait_assigned(self, timeout: Duration = 20.0) -> list[MessageQueue]:
        """Wait until every subscribed topic has been shared out among the group once.

        Returns this member's queues, which may be none if the group has more members than queues.
        Raises ClientTimeout naming the topics that are still waiting.
        """
        return self._running.run(self._twin.wait_assigned(timeout))

    def assigned(self) -> list[MessageQueue]:
        """The queues that this member reads now, the retry topic's left out."""
        queues: list[MessageQueue] = self._running.call(self._twin.assigned)
        return queues

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM (signals on the main thread only) or close(); then close.

        Starts the consumer if it is not running. Raises RocketMQError when it can no longer work.
        """
        try:
            # Catch signals before the start: one during the first message ends run() too.
            with catching_signals(lambda _number: self._over.set()):
                if self._thread is None:
                    self.start()
                self._twin.check_subscribed()
                thread = self._running
                while not self._over.wait(0.5):
                    self._twin.raise_failure()
                    if not thread.usable:
                        raise ClosedError("the consumer's thread ended; see the log")
        finally:
            self.close()

    def _on_loop(self, function: Any, *arguments: Any) -> None:
        if self._thread is None:
            function(*arguments)
        else:
            self._running.call(function, *arguments)

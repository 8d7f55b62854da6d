"""The lite pull consumer's blocking face."""

from typing import TYPE_CHECKING, Self

from mqclient.blocking.consumer import SyncConsumer
from mqclient.blocking.derive import like, plain, sync
from mqclient.blocking.loop_thread import CallbackThread
from mqclient.consumer.lite.consumer import LitePullConsumer as AsyncLitePullConsumer
from mqclient.consumer.subscription import SqlFilter, Topic
from mqclient.engine.serializing import OfValues, V
from mqclient.settings.consumers import LitePullOptions
from mqclient.settings.declare import explained, made_of, takes
from mqcommon.message import ReceivedMessage

__all__ = ["LitePullConsumer"]


@explained
class LitePullConsumer(SyncConsumer, OfValues[V]):
    """Reads topics, or queues, when the caller asks; one thread at a time asks.

        with LitePullConsumer("order_readers", "127.0.0.1:9876") as consumer:
            consumer.subscribe("TopicTest", "TagA || TagB")
            for message in consumer:
                print(message.body)

    A queue's position moves past a message when the next one is asked for, or by `commit`. A loop
    that is left by an exception or `break` therefore leaves the message in hand uncommitted.
    """

    if TYPE_CHECKING:
        _async: AsyncLitePullConsumer[V]

    @takes(LitePullOptions)
    def __init__(self, options: LitePullOptions[V]) -> None:
        client = made_of(AsyncLitePullConsumer, options)
        super().__init__(client, CallbackThread("mqclient-listeners"))

    # --- what to read

    def subscribe(self, topic: Topic, expression: str | SqlFilter = "*") -> None:
        """Read this member's share of a topic; before or after the start.

        topic: its name, or a compiled pattern: every topic whose whole name matches is read, never
        RocketMQ's own. Topics that appear later are found within route_poll_interval (30 s), and
        read from their beginning; a topic that is subscribed by name keeps that subscription.
        expression: tags "TagA || TagB", "*" for every message, or a SqlFilter. Every member of
        the group must have the same subscriptions. Raises TypeError, ValueError, also without a
        group and after `assign`. A running consumer lets a broker check a SqlFilter: BrokerError
        if the broker refuses it, UnreachableError or ClientTimeout when none can be asked.
        """
        if self._thread is None:
            self._async.subscribe(topic, expression)
        else:
            self._running.run(self._async._subscribe_checked(topic, expression))

    assign = plain(AsyncLitePullConsumer.assign, before_start=True)

    # --- messages

    def __iter__(self) -> Self:
        self._running.check_caller()
        self._async._check_reads()
        return self

    def __next__(self) -> ReceivedMessage[V]:
        """Wait for the next message; the iteration ends when the consumer is closed.

        Raises BrokerError when a broker refuses the pulls, for example for missing permission.
        """
        thread = self._thread or self._running
        if thread.usable:
            message = self._async._take()
            if message is not None:
                return message
        try:
            return thread.run(self._next(), self._async._take_back)
        except StopAsyncIteration:
            raise StopIteration from None

    async def _next(self) -> ReceivedMessage[V]:
        return await anext(self._async)

    @like(AsyncLitePullConsumer.poll)
    def poll(self, max_messages: int = 500, timeout: float = 5.0) -> list[ReceivedMessage[V]]:
        """Ctrl-C in the wait loses no message."""
        thread = self._running
        return thread.run(self._async.poll(max_messages, timeout), self._async._take_back)

    commit = sync(AsyncLitePullConsumer.commit)

"""The blocking push consumer."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from mqclient.blocking.consumer import SyncConsumer
from mqclient.blocking.loop_thread import CallbackThread
from mqclient.consumer.context import Handler, MessageFunction
from mqclient.consumer.push.consumer import PushConsumer as AsyncPushConsumer
from mqclient.consumer.subscription import (
    SqlFilter,
    Subscription,
    Topic,
    check_decorator,
    message_subscription,
    subscription_of,
)
from mqclient.errors import ClosedError
from mqclient.settings.consumers import PushOptions
from mqclient.settings.declare import explained, made_of, takes
from mqcommon.signals import catching_signals

__all__ = ["PushConsumer"]


@explained
class PushConsumer(SyncConsumer):
    """Reads topics for a group and calls handlers in threads.

    with PushConsumer("order_readers", "127.0.0.1:9876") as consumer:
        consumer.subscribe("TopicTest", "TagA || TagB", handle)
        consumer.run()
    """

    if TYPE_CHECKING:
        _async: AsyncPushConsumer

    @takes(PushOptions)
    def __init__(self, options: PushOptions) -> None:
        client = made_of(AsyncPushConsumer, options)
        super().__init__(client, CallbackThread("mqclient-handlers"))

    def subscribe(self, topic: Topic, expression: str | SqlFilter, handler: Handler) -> None:
        """Read a topic; before or after the start, replacing an earlier subscription of it.

        topic: its name, or a compiled pattern: every topic whose whole name matches is read, never
        RocketMQ's own. Topics that appear later are found within route_poll_interval (30 s), and
        read from their beginning; a topic that is subscribed by name keeps that subscription.
        expression: tags "TagA || TagB", "*" for every message, or a SqlFilter. handler: called
        with a list of messages and a ConsumeContext; None or ConsumeResult.SUCCESS acknowledges,
        an exception or anything else has them delivered again later. Plain functions run in
        `threads` threads; an `async def` runs on an event loop of the consumer's own, in a
        thread of its own.
        Every member of the group must have the same subscriptions. Raises TypeError, ValueError. A
        running consumer lets a broker check a SqlFilter: BrokerError if the broker refuses it,
        UnreachableError or ClientTimeout when none can be asked.
        """
        self._subscribe(subscription_of(topic, expression, self._async_functions.wrap(handler)))

    def on_message(
        self, topic: Topic, expression: str | SqlFilter = "*"
    ) -> Callable[[MessageFunction], MessageFunction]:
        """Decorate a function that handles one message of a topic.

            @consumer.on_message("TopicTest", "TagA")
            def handle(message): ...

        None acknowledges the message; after an exception it comes again later. `batch_size` does
        not count for the function. Otherwise as `subscribe`.
        """

        check_decorator(topic, expression)

        def subscribe(function: MessageFunction) -> MessageFunction:
            handler = self._async_functions.wrap(function)
            self._subscribe(message_subscription(topic, expression, handler))
            return function

        return subscribe

    def _subscribe(self, subscription: Subscription) -> None:
        if self._thread is None:
            self._async._add(subscription)
        else:
            self._running.run(self._async._add_checked(subscription))

    def run(self) -> None:
        """Serve until SIGINT or SIGTERM (signals on the main thread only) or close(); then close.

        Starts the consumer if it is not running. Raises RocketMQError when it can no longer work.
        """
        try:
            # Catch signals before the start: one during the first message ends run() too.
            with catching_signals(lambda _number: self._over.set()):
                if self._thread is None:
                    self.start()
                self._async._check_subscribed()
                thread = self._running
                while not self._over.wait(0.5):
                    self._async._raise_failure()
                    if not thread.usable:
                        raise ClosedError("the consumer's thread ended; see the log")
        finally:
            self.close()

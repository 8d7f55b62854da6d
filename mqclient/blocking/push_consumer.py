"""The blocking push consumer."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, cast

from mqclient.blocking.consumer import SyncConsumer
from mqclient.blocking.loop_thread import CallbackThread
from mqclient.blocking.serving import run
from mqclient.consumer.context import ConsumeContext, Handler
from mqclient.consumer.push.consumer import PushConsumer as AsyncPushConsumer
from mqclient.consumer.push.subscribing import HandlerSubscriptions
from mqclient.consumer.subscription import Subscription
from mqclient.engine.serializing import V
from mqclient.settings.consumers import PushOptions
from mqclient.settings.declare import explained, made_of, takes
from mqcommon.message import ReceivedMessage

__all__ = ["PushConsumer"]


@explained
class PushConsumer(SyncConsumer, HandlerSubscriptions[V]):
    """Reads topics for a group and calls handlers in threads.

    with PushConsumer("order_readers", "127.0.0.1:9876") as consumer:
        consumer.subscribe("TopicTest", "TagA || TagB", handle)
        consumer.run()
    """

    if TYPE_CHECKING:
        _async: AsyncPushConsumer[V]

    @takes(PushOptions)
    def __init__(self, options: PushOptions[V]) -> None:
        client = made_of(AsyncPushConsumer, options)
        super().__init__(client, CallbackThread("mqclient-handlers"))
        self._options = options

    def _subscribe(self, subscription: Subscription) -> None:
        if self._thread is None:
            self._async._add(subscription)
        else:
            self._running.run(self._async._add_checked(subscription))

    def _placed(self, handler: Handler) -> Handler:
        functions = self._async_functions
        call = cast(Callable[..., Coroutine[Any, Any, Any]], handler)

        async def there(messages: list[ReceivedMessage], context: ConsumeContext) -> Any:
            return await asyncio.wrap_future(functions.submit(call(messages, context)))

        return there

    def run(self, timeout: float = 20.0) -> None:
        """Serve until SIGINT or SIGTERM (signals on the main thread only) or close(); then close.

        Starts the consumer if it is not running. timeout: seconds for the handlers that run at the
        end. Raises RocketMQError when it can no longer work. For several clients, see
        `mqclient.run`.
        """
        run(self, timeout=timeout)

    def _serve(self) -> None:
        super()._serve()
        self._async._check_subscribed()

"""The methods of push consumers that take handlers, for both faces."""

from __future__ import annotations

from typing import Any, TypeVar, overload

from mqclient.consumer.context import Handler
from mqclient.consumer.handlers import (
    AnyHandler,
    Decorates,
    Kind,
    made_handler,
)
from mqclient.consumer.subscription import (
    SqlFilter,
    Subscription,
    Topic,
    check_decorator,
    subscription_of,
)
from mqclient.engine.serializing import Deserialize, OfValues, Reader, V, check_deserializer
from mqclient.settings.checks import check_range, seconds
from mqclient.settings.consumers import PushOptions
from mqcommon.message import ReceivedMessage

__all__ = ["HandlerSubscriptions"]

T = TypeVar("T")
MESSAGES_MAX = 65_535
WAIT_MAX_S = 60.0


class HandlerSubscriptions(OfValues[V]):
    """Base of push consumers: subscribes handlers of messages with values V."""

    _options: PushOptions[V]

    def _subscribe(self, subscription: Subscription) -> None:
        """Begin to read a topic."""
        raise NotImplementedError

    def _placed(self, handler: Handler) -> Handler:
        """An `async def` handler, on the loop where the consumer's handlers run."""
        return handler

    @overload
    def subscribe(
        self,
        topic: Topic,
        expression: str | SqlFilter,
        handler: AnyHandler[V],
        *,
        max_messages: int | None = None,
        max_wait: float = 0.0,
        deserializer: None = None,
    ) -> None: ...

    @overload
    def subscribe(
        self,
        topic: Topic,
        expression: str | SqlFilter,
        handler: AnyHandler[T],
        *,
        max_messages: int | None = None,
        max_wait: float = 0.0,
        deserializer: Deserialize[T],
    ) -> None: ...

    def subscribe(
        self,
        topic: Topic,
        expression: str | SqlFilter,
        handler: AnyHandler[Any] | None = None,
        *,
        max_messages: int | None = None,
        max_wait: float = 0.0,
        deserializer: Deserialize[Any] | None = None,
    ) -> None:
        """Read a topic; before or after the start, replacing an earlier subscription of it.

        topic: its name, or a compiled pattern: every topic whose whole name matches is read, never
        RocketMQ's own. Topics that appear later are found within route_poll_interval (30 s), and
        read from their beginning; a topic that is subscribed by name keeps that subscription.
        expression: tags "TagA || TagB", "*" for every message, or a SqlFilter. handler: takes a
        list of messages, or one if its argument is annotated ReceivedMessage; and a ConsumeContext,
        if it has a second argument. None or ConsumeResult.SUCCESS acknowledges, an exception or
        anything else has them delivered again later. Plain functions run in `threads` threads, an
        `async def` on the loop (of a blocking consumer: on one of its own, in a thread of its own).
        max_messages, max_wait: see `on_batch`; None takes `batch_size`. deserializer: reads
        `message.value` of this topic; None takes the consumer's.
        Every member of the group must have the same subscriptions. Raises TypeError, ValueError.

        A broker checks a SqlFilter at the start, later it is checked before it is used. If the
        broker refuses it, or cannot be asked, this raises BrokerError, UnreachableError or
        ClientTimeout; with asyncio the next `run` or `wait_assigned` does.
        """
        if handler is None:
            raise TypeError(_no_handler(expression))
        subscription = self._made(topic, expression, handler, "subscribe", None, deserializer)
        self._batch(subscription, max_messages, max_wait)
        self._subscribe(subscription)

    @overload
    def on_message(
        self,
        topic: Topic,
        expression: str | SqlFilter = "*",
        *,
        deserializer: None = None,
    ) -> Decorates[ReceivedMessage[V]]: ...

    @overload
    def on_message(
        self,
        topic: Topic,
        expression: str | SqlFilter = "*",
        *,
        deserializer: Deserialize[T],
    ) -> Decorates[ReceivedMessage[T]]: ...

    def on_message(
        self,
        topic: Topic,
        expression: str | SqlFilter = "*",
        *,
        deserializer: Deserialize[Any] | None = None,
    ) -> Decorates[Any]:
        """Decorate a function of one message, `def` or `async def`; it may take the context too.

            @consumer.on_message("TopicTest", "TagA")
            def handle(message): ...

        None acknowledges the message; after an exception it comes again later. Otherwise as
        `subscribe`.
        """
        check_decorator("on_message", topic, expression)

        def subscribe(function: Any) -> Any:
            self._subscribe(
                self._made(topic, expression, function, "on_message", "message", deserializer)
            )
            return function

        return subscribe

    @overload
    def on_batch(
        self,
        topic: Topic,
        expression: str | SqlFilter = "*",
        *,
        max_messages: int = 100,
        max_wait: float = 0.1,
        deserializer: None = None,
    ) -> Decorates[list[ReceivedMessage[V]]]: ...

    @overload
    def on_batch(
        self,
        topic: Topic,
        expression: str | SqlFilter = "*",
        *,
        max_messages: int = 100,
        max_wait: float = 0.1,
        deserializer: Deserialize[T],
    ) -> Decorates[list[ReceivedMessage[T]]]: ...

    def on_batch(
        self,
        topic: Topic,
        expression: str | SqlFilter = "*",
        *,
        max_messages: int = 100,
        max_wait: float = 0.1,
        deserializer: Deserialize[Any] | None = None,
    ) -> Decorates[Any]:
        """Decorate a function of a list of messages of one queue; it may take the context too.

            @consumer.on_batch("TopicTest", max_messages=500, max_wait=1.0)
            def store(messages): ...

        It is called when a queue has max_messages, or when the first of them has waited for
        max_wait seconds. Otherwise as `subscribe`.
        """
        check_decorator("on_batch", topic, expression)

        def subscribe(function: Any) -> Any:
            made = self._made(topic, expression, function, "on_batch", "messages", deserializer)
            self._batch(made, max_messages, max_wait)
            self._subscribe(made)
            return function

        return subscribe

    def _made(
        self,
        topic: Topic,
        expression: str | SqlFilter,
        function: AnyHandler[Any],
        method: str,
        kind: Kind | None,
        deserializer: Deserialize[Any] | None,
    ) -> Subscription:
        subscription = subscription_of(topic, expression)
        made = made_handler(function, method, kind, tuple(self._options.middleware))
        if made.on_loop:
            made = made._replace(handler=self._placed(made.handler))
        subscription.set_handler(made)
        if deserializer is not None:
            check_deserializer("deserializer", deserializer)
        reads = deserializer if deserializer is not None else self._options.deserializer
        subscription.reader = None if reads is None else Reader(reads)
        return subscription

    def _batch(self, subscription: Subscription, messages: int | None, wait: float) -> None:
        if messages is not None:
            check_range("max_messages", messages, 1, MESSAGES_MAX)
            if subscription.one_message:
                raise ValueError("max_messages is for a handler of a list, not of one message")
            held = self._options.limits.queue_messages
            if messages > held:
                raise ValueError(
                    f"max_messages {messages} is more than a consumer holds of one queue; raise "
                    f"limits=Limits(queue_messages={held})"
                )
        subscription.max_messages = messages
        subscription.max_wait = seconds(wait, "max_wait", ceiling=WAIT_MAX_S)


def _no_handler(expression: object) -> str:
    """What is wrong with a call of `subscribe` without a handler, and what to write."""
    wrong = "subscribe needs a handler"
    if callable(expression):
        wrong = "the handler stands where subscribe takes the expression"
    return f"{wrong}; write subscribe(topic, '*', handler), or use @consumer.on_message(topic)"

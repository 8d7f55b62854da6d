"""Filters of a subscription: tag expressions "A || B" or "*", or SQL92. No IO."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from msgspec import structs

from mqclient.consumer.context import Handler
from mqclient.consumer.handlers import Made
from mqclient.consumer.subscription_versions import next_version
from mqclient.engine.serializing import Reader
from mqclient.settings.checks import check_readable
from mqcommon.message import MessageQueue, ReceivedMessage, set_reader
from mqcommon.names import tag_hash, tags_of
from mqcommon.wire.bodies.heartbeat import SQL92, SUBSCRIBE_ALL, SubscriptionData

__all__ = [
    "HandlerWrap",
    "SqlFilter",
    "Subscription",
    "Topic",
    "check_decorator",
    "check_topic",
    "subscription_of",
    "tag_subscription",
]


@dataclass(frozen=True, slots=True)
class SqlFilter:
    """A filter over message properties, evaluated by the broker: RocketMQ's SQL92.

    text: for example "a > 5 AND region IN ('east', 'west')". The broker must allow it
    (enablePropertyFilter); text that it cannot parse is a BrokerError when the consumer starts or
    subscribes. Raises TypeError or ValueError for anything but text.
    """

    text: str

    def __post_init__(self) -> None:
        if not isinstance(self.text, str):
            raise TypeError(f"a filter must be str, not {type(self.text).__name__}")
        if not self.text.strip():
            raise ValueError("the filter is empty; subscribe to '*' for every message")


HandlerWrap = Callable[[Handler, bool], Handler]
"""Wraps a handler in another one. The second argument says whether it is `async def`."""


@dataclass(slots=True)
class Subscription:
    """A subscribed topic.

    tags: tags that the client accepts, None for all; brokers filter by hash only. on_loop: the
    handler is `async def` and runs on the loop, not in a thread. one_message: the handler gets one
    message at a time, whatever the batch size. initial: queues that existed when
    the subscription was first balanced, None before that; later ones begin at their minimum.
    announced: brokers heard of it; a push consumer pulls only then. reader: reads the values of
    messages; None leaves them bytes. max_messages: of one call, None takes batch_size; max_wait:
    seconds that a call waits for that number. pattern: the topics to find, each of which becomes a
    subscription `for_topic`; None for a topic. by_pattern: a pattern found the topic.
    """

    data: SubscriptionData
    handler: Handler | None
    tags: frozenset[str] | None
    on_loop: bool = False
    one_message: bool = False
    initial: frozenset[MessageQueue] | None = field(default=None)
    balanced: bool = False
    checked: bool = False
    announced: bool = False
    reader: Reader[Any] | None = None
    pattern: re.Pattern[str] | None = None
    by_pattern: bool = False
    max_messages: int | None = None
    max_wait: float = 0.0

    def set_handler(self, made: Made) -> None:
        """Call this handler."""
        self.handler, self.on_loop, self.one_message = made

    def for_topic(self, topic: str) -> "Subscription":
        """The subscription of a topic that the pattern has found."""
        data = structs.replace(self.data, topic=topic, sub_version=next_version())
        return replace(self, data=data, pattern=None, by_pattern=True)

    def give_values(self, messages: list[ReceivedMessage]) -> None:
        """Have the deserializer read the values of messages, if there is one."""
        if self.reader is not None:
            set_reader(messages, self.reader)

    @property
    def expression(self) -> str | SqlFilter:
        """The filter, as the program gave it."""
        text = self.data.sub_string
        return SqlFilter(text) if self.data.expression_type == SQL92 else text

    def wrap_handler(self, wrap: HandlerWrap) -> None:
        """Wrap the handler, if there is one."""
        if self.handler is not None:
            self.handler = wrap(self.handler, self.on_loop)


Topic = str | re.Pattern[str]
"""A topic, or a pattern that the whole name of a topic must match."""


def check_topic(topic: object) -> None:
    """Raise TypeError or ValueError unless it is a topic or a pattern of topics."""
    if not isinstance(topic, re.Pattern):
        check_readable(topic)  # type: ignore[arg-type]
    elif not isinstance(topic.pattern, str):
        raise TypeError(f"a pattern of topics must be of str, not of bytes: {topic.pattern!r}")


def tag_subscription(topic: str, expression: str) -> Subscription:
    """Read a tag expression: tags separated by "||", or "*" for every message.

    Raises TypeError or ValueError naming the mistake.
    """
    if not isinstance(expression, str):
        raise TypeError(f"expression must be str, not {type(expression).__name__}")
    text = expression.strip() or SUBSCRIBE_ALL
    tags = list(dict.fromkeys(tags_of(text)))
    if not tags and text != SUBSCRIBE_ALL:
        raise ValueError(f"expression {expression!r} names no tag; use 'A || B' or '*'")
    data = SubscriptionData(
        topic=topic,
        sub_string=text,
        tags_set=tags,
        code_set=[tag_hash(tag) for tag in tags],
        sub_version=next_version(),
    )
    return Subscription(data, None, frozenset(tags) or None)


def check_decorator(method: str, topic: object, expression: str | SqlFilter) -> None:
    """Raise TypeError or ValueError for wrong arguments of `on_message` or `on_batch`."""
    if not isinstance(topic, (str, re.Pattern)):
        hint = f"; write @consumer.{method}('TopicTest')" if callable(topic) else ""
        raise TypeError(f"{method} needs a topic, not a {type(topic).__name__}{hint}")
    subscription_of(topic, expression)


def subscription_of(topic: Topic, expression: str | SqlFilter) -> Subscription:
    """Read the filter of a subscription: a tag expression, or SQL92.

    Raises TypeError or ValueError naming the mistake.
    """
    check_topic(topic)
    if isinstance(topic, re.Pattern):
        made = subscription_of(topic.pattern or "*", expression)
        made.pattern = topic
        return made
    if not isinstance(expression, SqlFilter):
        return tag_subscription(topic, expression)
    data = SubscriptionData(
        topic=topic,
        sub_string=expression.text,
        sub_version=next_version(),
        expression_type=SQL92,
    )
    return Subscription(data, None, None)

"""The queue that a caller chooses for a message: by name, by an order key, or by a function.

Rules: RocketMQ 4.9 `SelectMessageQueueByHash.select`, `DefaultMQProducerImpl.sendSelectImpl`.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from mqcommon.message import Message, MessageQueue
from mqcommon.names import java_hash

__all__ = ["OrderKey", "QueueChoice", "Selector", "chosen_queue", "queue_choice"]

OrderKey = str | int
Selector = Callable[[list[MessageQueue], Message], MessageQueue]
"""Gets the topic's queues and the message, of a batch the first one; returns one of the queues."""


class QueueChoice(NamedTuple):
    """How a caller chose; exactly one of the three is set."""

    queue: MessageQueue | None
    order_key: OrderKey | None
    selector: Selector | None


def queue_choice(
    queue: MessageQueue | None, order_key: OrderKey | None, selector: Selector | None
) -> QueueChoice | None:
    """The choice in the arguments of a send; None if the sends rotate over the queues.

    Raises TypeError for a wrong type, ValueError for more than one choice.
    """
    given = [item for item in (queue, order_key, selector) if item is not None]
    if not given:
        return None
    if len(given) > 1:
        raise ValueError("give only one of queue, order_key and selector")
    if queue is not None and not isinstance(queue, MessageQueue):
        raise TypeError(f"queue must be a MessageQueue, not {type(queue).__name__}")
    if order_key is not None and (isinstance(order_key, bool) or not _is_key(order_key)):
        raise TypeError(f"order_key must be str or int, not {type(order_key).__name__}")
    if selector is not None and not callable(selector):
        raise TypeError(f"selector must be a function, not {type(selector).__name__}")
    return QueueChoice(queue, order_key, selector)


def chosen_queue(
    choice: QueueChoice, queues: Sequence[MessageQueue], message: Message
) -> MessageQueue:
    """The queue for a message. queues: of its topic, as the caller knows them.

    Raises ValueError for a queue of another topic, or if the selector returns no queue of the list;
    also passes on the selector's errors.
    """
    if choice.queue is not None:
        if choice.queue.topic != message.topic:
            raise ValueError(
                f"{choice.queue} does not belong to the message's topic {message.topic!r}"
            )
        return choice.queue
    if choice.order_key is not None:
        return queues[abs(_key_hash(choice.order_key)) % len(queues)]
    assert choice.selector is not None
    selected = choice.selector(list(queues), message)
    if selected not in queues:
        raise ValueError(f"selector returned {selected!r}; it must return one of the given queues")
    return selected


def _is_key(order_key: object) -> bool:
    return isinstance(order_key, (str, int))


def _key_hash(order_key: OrderKey) -> int:
    """Java's hashCode: of a String, an Integer, or a Long beyond 32 bits."""
    if isinstance(order_key, str):
        return java_hash(order_key)
    if -(1 << 31) <= order_key < 1 << 31:
        return order_key
    if not -(1 << 63) <= order_key < 1 << 63:
        raise ValueError(f"order_key must fit 64 bits, not {order_key}; give it as str")
    unsigned = order_key & (1 << 64) - 1
    low = (unsigned ^ unsigned >> 32) & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low

"""Bodies as values: a serializer turns a value into the bytes of a message, and back.

Bodies are bytes unless a program asks for more. `Json` is here; anything else with `dumps` and
`loads` works too, for example a class around Avro or Protobuf.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from mqclient.errors import UnreadableBodyError
from mqcommon.message import DecodeError, Message, ReceivedMessage

__all__ = ["Json", "Serializer", "UnreadableBodyError", "message_of", "value_of"]

T = TypeVar("T")
V = TypeVar("V")


class Serializer(Protocol[T]):
    """Turns values into bytes and back. Both methods raise ValueError for an unsuitable input."""

    def dumps(self, value: T) -> bytes:
        """The body of a message with this value."""
        ...

    def loads(self, body: bytes) -> T:
        """The value of a message's body."""
        ...


class Json(Generic[V]):
    """JSON through msgspec.

    kind: the type of the values, which `loads` checks: a msgspec.Struct, a dataclass,
    dict[str, int] and others; Any takes all JSON.

    >>> Json(list[int]).loads(b"[1, 2]")
    [1, 2]
    """

    def __init__(self, kind: type[V] | Any = Any) -> None:
        self._encoder = msgspec.json.Encoder()
        self._decoder: msgspec.json.Decoder[V] = msgspec.json.Decoder(kind)

    def dumps(self, value: V) -> bytes:
        """JSON in UTF-8. Raises ValueError for a value that JSON does not have."""
        try:
            return self._encoder.encode(value)
        except (TypeError, OverflowError) as error:
            raise ValueError(f"{type(value).__name__} is no JSON: {error}") from error

    def loads(self, body: bytes) -> V:
        """The value. Raises ValueError for invalid JSON or another type."""
        return self._decoder.decode(body)


def message_of(
    topic: str,
    value: T,
    serializer: Serializer[T],
    *,
    tags: str | None = None,
    keys: str | Iterable[str] | None = None,
    properties: Mapping[str, str] | None = None,
    delay_level: int = 0,
) -> Message:
    """Make a message whose body is a value.

    Other arguments as for Message. Raises the errors of the serializer and of Message.
    """
    return Message(
        topic,
        serializer.dumps(value),
        tags=tags,
        keys=keys,
        properties=properties,
        delay_level=delay_level,
    )


def value_of(message: ReceivedMessage, serializer: Serializer[T]) -> T:
    """The value of a received message. Raises UnreadableBodyError, which names the message.

    In a handler of a push consumer, the exception has the message delivered again, and at last
    to the dead-letter topic.
    """
    try:
        return serializer.loads(message.body)
    except (ValueError, DecodeError) as error:
        raise UnreadableBodyError(
            f"message {message.msg_id} of topic {message.topic!r} (queue {message.queue_id}, "
            f"offset {message.queue_offset}) has a body that {type(serializer).__name__} cannot "
            f"read: {error}",
            message,
        ) from error

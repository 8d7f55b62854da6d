"""Bodies as values: serializers to use, and functions for one message.

A serializer has `dumps(value)`, a deserializer `loads(body)`; those here have both. A function of
the value or of the body works too, for example around Avro or Protobuf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, Self, TypeVar, overload

import msgspec

from mqclient.engine.serializing import (
    Deserialize,
    Deserializer,
    Reader,
    Serialize,
    Serializer,
    body_of,
)
from mqclient.errors import UnreadableBodyError
from mqcommon.message import Message, ReceivedMessage

__all__ = [
    "Deserializer",
    "Json",
    "MessagePack",
    "Serializer",
    "Text",
    "UnreadableBodyError",
    "message_of",
    "value_of",
]

T = TypeVar("T")
K = TypeVar("K")


class _Msgspec(Generic[K]):
    """A format of msgspec. kind: the type of the values, which `loads` checks; Any takes all."""

    _format: Any

    @overload
    def __init__(self: _Msgspec[Any]) -> None: ...
    @overload
    def __init__(self, kind: type[K]) -> None: ...
    @overload
    def __init__(self: _Msgspec[Any], kind: object) -> None: ...
    def __init__(self, kind: Any = Any) -> None:
        self._kind = kind
        self._encode: Callable[[K], bytes] = self._format.Encoder().encode
        self._decode: Callable[[bytes], K] = self._format.Decoder(kind).decode

    def dumps(self, value: K) -> bytes:
        """The body. Raises ValueError for a value that the format does not have."""
        try:
            return self._encode(value)
        except (TypeError, OverflowError) as error:
            name = type(self).__name__
            raise ValueError(f"{type(value).__name__} is no {name}: {error}") from error

    def loads(self, body: bytes) -> K:
        """The value of a body. Raises ValueError for another format or another type."""
        return self._decode(body)

    def __reduce__(self) -> tuple[type[Self], tuple[Any]]:
        return type(self), (self._kind,)


class Json(_Msgspec[K]):
    """JSON in UTF-8, through msgspec.

    kind: the type of the values, which `loads` checks: a msgspec.Struct, a dataclass,
    dict[str, int] and others; Any takes all JSON.

    >>> Json(list[int]).loads(b"[1, 2]")
    [1, 2]
    """

    _format = msgspec.json


class MessagePack(_Msgspec[K]):
    """MessagePack, through msgspec. kind: as for Json.

    >>> MessagePack().dumps({"a": 1})
    b'\\x81\\xa1a\\x01'
    """

    _format = msgspec.msgpack


class Text:
    """Text. encoding: one of Python's, strict.

    >>> Text().loads(b"caf\\xc3\\xa9")
    'café'
    """

    def __init__(self, encoding: str = "utf-8") -> None:
        "".encode(encoding)  # LookupError for an unknown one
        self._encoding = encoding

    def dumps(self, value: str) -> bytes:
        """The body of a value. Raises TypeError for anything but text, UnicodeEncodeError."""
        if not isinstance(value, str):
            raise TypeError(f"text is str, not {type(value).__name__}")
        return value.encode(self._encoding)

    def loads(self, body: bytes) -> str:
        """The value of a body. Raises UnicodeDecodeError."""
        return body.decode(self._encoding)


def message_of(
    topic: str,
    value: T,
    serializer: Serialize[T],
    *,
    tags: str | None = None,
    keys: str | Iterable[str] | None = None,
    properties: Mapping[str, str] | None = None,
    delay_level: int = 0,
) -> Message:
    """Make a message whose body is a value, without a producer; see `Producer.message`.

    Other arguments as for Message. Raises ValueError or TypeError for a value that the serializer
    does not take, and the errors of Message.
    """
    return Message(
        topic,
        body_of(serializer, topic, value),
        tags=tags,
        keys=keys,
        properties=properties,
        delay_level=delay_level,
    )


def value_of(message: ReceivedMessage[Any], deserializer: Deserialize[T]) -> T:
    """The value of one message, whatever the consumer's deserializer is.

    Raises UnreadableBodyError, which names the message. In a handler of a push consumer, the
    exception has the message delivered again, and at last to the dead-letter topic.
    """
    return Reader(deserializer)(message)

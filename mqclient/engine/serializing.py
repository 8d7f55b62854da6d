"""How values become bodies and bodies become values: what serializers are, and their errors.

`mqclient.serializers` has serializers to use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, cast

from mqclient.errors import UnreadableBodyError
from mqcommon.message import ReceivedMessage

if TYPE_CHECKING:
    from typing import Generic as OfValues

    from typing_extensions import TypeVar as DefaultTypeVar

    V = DefaultTypeVar("V", default=bytes)
    W = DefaultTypeVar("W", default=Any)
else:

    class OfValues:
        """Base of `Producer[Order]`, and short in help(): typing.Generic fills half a screen."""

        def __class_getitem__(cls, _values: object) -> type:
            return cls

    V, W = TypeVar("V"), TypeVar("W")
# V: the values of a client, bytes without a serializer. W: the same in a group of options.

__all__ = [
    "Deserialize",
    "Deserializer",
    "OfValues",
    "Reader",
    "Serialize",
    "Serializer",
    "V",
    "W",
    "body_of",
    "check_deserializer",
    "check_serializer",
]

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
T_contra = TypeVar("T_contra", contravariant=True)


class Serializer(Protocol[T_contra]):
    """Makes bodies. `dumps` raises any error for a value that it does not take."""

    def dumps(self, value: T_contra, /) -> bytes:
        """The body of a message with this value."""
        ...


class Deserializer(Protocol[T_co]):
    """Reads bodies. `loads` raises any error for a body that it cannot read."""

    def loads(self, body: bytes, /) -> T_co:
        """The value of a message's body."""
        ...


Serialize = Serializer[T] | Callable[[T], bytes]
"""An object with `dumps`, or a function."""
Deserialize = Deserializer[T] | Callable[[bytes], T]
"""An object with `loads`, or a function."""


def check_serializer(name: str, given: Any) -> Any:
    """An object with `dumps`, or a function, as it is. Raises TypeError for anything else."""
    return _check(name, given, "dumps", "value")


def check_deserializer(name: str, given: Any) -> Any:
    """An object with `loads`, or a function, as it is. Raises TypeError for anything else."""
    return _check(name, given, "loads", "body")


def _check(name: str, given: Any, method: str, argument: str) -> Any:
    if isinstance(given, type) or not (callable(getattr(given, method, None)) or callable(given)):
        raise TypeError(
            f"{name} must be an object with {method}({argument}), such as Json(), or a function "
            f"of the {argument}, not {given!r}"
        )
    return given


def body_of(serialize: Serialize[T] | None, topic: str, value: T) -> bytes:
    """The body of a value. None takes bytes only.

    Raises ValueError for a value that the serializer does not take, TypeError if it makes no bytes.
    Both name the topic and the type of the value.
    """
    what = f"a {type(value).__name__} for topic {topic!r}"
    if serialize is None:
        if not isinstance(value, (bytes, bytearray, memoryview)):
            raise TypeError(f"{what} is not bytes; give the producer a serializer, such as Json()")
        return bytes(value)
    dumps: Callable[[T], bytes] = getattr(serialize, "dumps", None) or cast(Any, serialize)
    try:
        body: object = dumps(value)
    except Exception as error:
        raise ValueError(f"{_name(serialize)} cannot serialize {what}: {error}") from error
    if not isinstance(body, (bytes, bytearray, memoryview)):
        given = type(body).__name__
        raise TypeError(f"{_name(serialize)} made {given} of {what}; it must make bytes")
    return bytes(body)


class Reader(Generic[T_co]):
    """Reads the values of messages with a deserializer."""

    __slots__ = ("_deserialize", "_loads")

    def __init__(self, deserialize: Deserialize[T_co]) -> None:
        self._deserialize = deserialize
        self._loads: Callable[[bytes], T_co] = getattr(deserialize, "loads", None) or cast(
            Any, deserialize
        )

    def __call__(self, message: ReceivedMessage) -> T_co:
        """The value of a message. Raises UnreadableBodyError, which names and has the message."""
        try:
            return self._loads(message.body)
        except Exception as error:
            raise UnreadableBodyError(
                f"message {message.msg_id} of topic {message.topic!r} (queue {message.queue_id}, "
                f"offset {message.queue_offset}) has a body that {_name(self._deserialize)} cannot "
                f"read: {error}",
                message,
            ) from error

    def __reduce__(self) -> tuple[type[Reader[T_co]], tuple[Deserialize[T_co]]]:
        return Reader, (self._deserialize,)


def _name(serializer: object) -> str:
    """A serializer as errors name it: its function or its class."""
    return getattr(serializer, "__qualname__", type(serializer).__name__)

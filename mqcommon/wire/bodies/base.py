"""Base of all bodies: a struct, converted to fastjson text and back.

A field's JSON name is its attribute in camelCase unless the class's `wire_names` says otherwise.
None is omitted, as in fastjson. Reading ignores unknown keys, accepts numbers as strings,
and lets an absent or null key keep the field's default. `int` is Java's long, `Int32` its int,
`Name` a key of tables.
Maps keyed by MessageQueue are written with raw object keys (`{{"brokerName":...}:1}`), the only
form that Java and Go both read.
"""

from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from mqcommon import fastjson
from mqcommon.message import MessageQueue
from mqcommon.wire.headers.base import Int32, Name, camel, java_number, named, within

_Reader = Callable[[Any], Any]
_PLAIN_TYPES = frozenset((str, int, bool, float))
"""Types of most values in a registration of ten thousand topics."""


class BodyError(ValueError):
    """A body is not the JSON that its request or response needs."""


class Body(Struct):
    """Base of all bodies."""

    wire_names: ClassVar[Mapping[str, str]] = {}

    def to_json(self) -> bytes:
        """Write compact fastjson text, bean keys sorted."""
        text = fastjson.dumps(self.to_plain())
        return text.encode() if isinstance(text, str) else text

    @classmethod
    def from_json(cls, text: bytes | str) -> Self:
        """Read fastjson text, unquoted and object keys included.

        Raises BodyError if the text is no JSON object or a value does not have its type.
        """
        try:
            plain = fastjson.loads(text)
        except ValueError as error:
            raise BodyError(f"{cls.__name__}: {error}") from error
        return cls.from_plain(plain)

    def to_plain(self) -> dict[str, object]:
        """Turn the body into dicts, lists and scalars, keys sorted, None left out."""
        pairs = ((name, getattr(self, attribute)) for attribute, name, _ in _columns(type(self)))
        return {name: _plain(value) for name, value in pairs if value is not None}

    @classmethod
    def from_plain(cls, plain: object) -> Self:
        """Build the body from plain: what `fastjson.loads` returned. Raises BodyError."""
        if not isinstance(plain, Mapping):
            raise BodyError(f"{cls.__name__}: expected an object, found {type(plain).__name__}")
        values = {}
        for attribute, name, read in _columns(cls):
            value = plain.get(name)
            if value is not None:
                try:
                    values[attribute] = read(value)
                except (TypeError, ValueError, OverflowError, AttributeError, LookupError) as error:
                    raise BodyError(f"{cls.__name__}.{name}: {error}") from error
        try:
            return cls(**values)
        except TypeError:
            absent = [name for name in _mandatory(cls) if name not in values]
            names = ", ".join(cls.wire_names.get(name) or camel(name) for name in absent)
            raise BodyError(f"{cls.__name__}: {names} is missing") from None


def _mandatory(cls: type[Body]) -> list[str]:
    """Attributes without a default."""
    return [
        item.name
        for item in fields(cls)
        if item.default is NODEFAULT and item.default_factory is NODEFAULT
    ]


_plans: dict[type[Body], tuple[tuple[str, str, _Reader], ...]] = {}


def _columns(cls: type[Body]) -> tuple[tuple[str, str, _Reader], ...]:
    """Find once per class the attribute, JSON name and reader of each field, sorted by name."""
    plan = _plans.get(cls)
    if plan is None:
        hints = get_type_hints(cls, include_extras=True)
        columns = [
            (item.name, cls.wire_names.get(item.name) or camel(item.name), reader(hints[item.name]))
            for item in fields(cls)
        ]
        plan = _plans[cls] = tuple(sorted(columns, key=lambda column: column[1]))
    return plan


def _plain(value: Any) -> object:
    if type(value) in _PLAIN_TYPES:
        return value
    if isinstance(value, Body):
        return value.to_plain()
    if isinstance(value, MessageQueue):
        return queue_to_plain(value)
    if isinstance(value, Mapping):
        return {_plain_key(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_plain(item) for item in value]
    return value


def _plain_key(key: Any) -> object:
    if isinstance(key, MessageQueue):
        text = fastjson.dumps(queue_to_plain(key))
        return fastjson.RawKey(text if isinstance(text, str) else text.decode())
    return key


def queue_to_plain(queue: MessageQueue) -> dict[str, object]:
    """Write a MessageQueue as RocketMQ's bean."""
    return {"brokerName": queue.broker_name, "queueId": queue.queue_id, "topic": queue.topic}


def queue_from_plain(plain: Any) -> MessageQueue:
    """Read a MessageQueue from its bean, or from the bean's JSON text (a map key)."""
    bean = fastjson.loads(plain) if isinstance(plain, str) else plain
    if not isinstance(bean, Mapping):
        raise BodyError(f"expected a MessageQueue, found {bean!r}")
    name = _SCALARS[Name]
    return MessageQueue(name(bean["topic"]), name(bean["brokerName"]), _number(bean["queueId"], 32))


def reader(hint: Any) -> _Reader:
    """Return the function that turns plain JSON data into a value of the annotated type."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return reader(next(kind for kind in get_args(hint) if kind is not NoneType))
    if origin is list:
        item = reader(get_args(hint)[0])
        return lambda plain: [item(element) for element in plain]
    if origin is dict:
        key, value = map(reader, get_args(hint))
        return lambda plain: {key(k): value(v) for k, v in plain.items()}
    if hint is MessageQueue:
        return queue_from_plain
    if isinstance(hint, type) and issubclass(hint, Body):
        return hint.from_plain
    return _SCALARS[hint]


def _number(plain: Any, bits: int) -> int:
    return java_number(plain, bits) if isinstance(plain, str) else within(int(plain), bits)


def _boolean(plain: Any) -> bool:
    return plain.lower() == "true" if isinstance(plain, str) else bool(plain)


def fastjson_text(plain: Any) -> str:
    """Turn a scalar, which a peer may not have quoted, into text as Java does.

    Raises TypeError for a list or an object.
    """
    if isinstance(plain, str):
        return plain
    if isinstance(plain, bool):
        return "true" if plain else "false"
    if not isinstance(plain, (int, float)):
        raise TypeError(f"expected text, found {type(plain).__name__}")
    return str(plain)


_SCALARS: dict[Any, _Reader] = {
    str: fastjson_text,
    Name: lambda plain: named(_SCALARS[str](plain)),
    int: lambda plain: _number(plain, 64),
    Int32: lambda plain: _number(plain, 32),
    float: float,
    bool: _boolean,
    object: lambda plain: plain,
}

"""Base of all headers: a frozen struct, converted to a frame's string fields and back.

A field's wire name is its attribute in camelCase unless the class's `wire_names` says otherwise.
None is left out, booleans are "true" and "false", numbers are decimal: `int` is Java's long,
`Int32` its int, `Name` a key of tables. A field without a default is mandatory. Class
names are RocketMQ's.
"""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Annotated, Any, ClassVar, NamedTuple, Self, get_args

from msgspec import NODEFAULT, Struct
from msgspec.structs import fields

from mqcommon import names

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_NUMBER = re.compile(r"[+-]?\d{1,64}")
_SHOWN_MAX = 64
"""Most characters of a bad value that an error repeats."""
Int32 = Annotated[int, "Java int"]
"""A number of 32 bits in Java: a queue, a permission, a count, flags."""
Name = Annotated[str, "name"]
"""The name of a topic, group, client, broker or cluster, or an address: see `named`."""
NAME_LENGTH_MAX = names.GROUP_LENGTH_MAX + len(names.RETRY_PREFIX)
"""Characters of the longest retry topic."""


class HeaderError(ValueError):
    """A mandatory header field is missing, or a value does not have the field's type."""


class Header(Struct, frozen=True):
    """Base of all headers, each of which is made by keywords."""

    wire_names: ClassVar[Mapping[str, str]] = {}

    def to_fields(self) -> dict[str, str]:
        """Write the extension fields of a frame; fields that are None are left out."""
        result = {}
        for column in _columns(type(self)):
            value = getattr(self, column.attribute)
            if value is not None:
                result[column.name] = column.write(value)
        return result

    @classmethod
    def from_fields(cls, source: Mapping[str, str]) -> Self:
        """Read a header from the extension fields of a frame; unknown fields are ignored.

        Raises HeaderError if a mandatory field is missing or a number is invalid. An empty
        number counts as absent, because the binary header cannot tell them apart.
        """
        values = {}
        for column in _columns(cls):
            text = source.get(column.name)
            if text is None or (text == "" and column.write is not str):
                if column.mandatory:
                    raise HeaderError(f"{cls.__name__}: field {column.name} is missing")
                continue
            try:
                values[column.attribute] = column.read(text)
            except ValueError as error:
                shown = text if len(text) <= _SHOWN_MAX else f"{text[:_SHOWN_MAX]}..."
                why = f"{cls.__name__}: {column.name}={shown!r} is bad: {error}"
                raise HeaderError(why) from None
        return cls(**values)


class _Column(NamedTuple):
    attribute: str
    name: str
    mandatory: bool
    read: Callable[[str], Any]
    write: Callable[[Any], str]


def within(number: int, bits: int) -> int:
    """Return `number` if it fits a signed integer of `bits` bits; raises ValueError otherwise."""
    if not -(1 << bits - 1) <= number < 1 << bits - 1:
        raise ValueError(f"{number} does not fit {bits} bits")
    return number


def named(text: str) -> str:
    """Return `text` if it can be a name; raises ValueError otherwise.

    It has at most NAME_LENGTH_MAX characters and no control character, which would reach logs,
    file names and answers to other clients. Other rules depend on the kind of name.
    """
    if len(text) > NAME_LENGTH_MAX:
        raise ValueError(f"a name of {len(text)} characters is over {NAME_LENGTH_MAX}")
    if _CONTROL.search(text):
        raise ValueError(f"{text!r} has a control character")
    return text


def all_named(names: Collection[str]) -> bool:
    """Whether each of many names passes `named`; fast enough for ten thousand topics."""
    return max(map(len, names), default=0) <= NAME_LENGTH_MAX and not _CONTROL.search(
        "".join(names)
    )


def java_number(text: str, bits: int = 64) -> int:
    """Read a number that fits the bits, in Java's form: no blanks, no underscores.

    Raises ValueError.
    """
    if not _NUMBER.fullmatch(text):
        raise ValueError("it is not a whole number")
    return within(int(text), bits)


_READ: dict[Any, Callable[[str], Any]] = {
    str: str,
    Name: named,
    int: java_number,
    Int32: lambda text: java_number(text, 32),
    bool: lambda text: text.lower() == "true",
}
_WRITE: dict[Any, Callable[[Any], str]] = {
    str: str,
    Name: str,
    int: lambda value: format(value, "d"),
    Int32: lambda value: format(value, "d"),
    bool: lambda value: "true" if value else "false",
}


_plans: dict[type[Header], tuple[_Column, ...]] = {}


def _columns(cls: type[Header]) -> tuple[_Column, ...]:
    """Determine once per class how each field is read and written."""
    plan = _plans.get(cls)
    if plan is None:
        plan = _plans[cls] = _plan(cls)
    return plan


def _plan(cls: type[Header]) -> tuple[_Column, ...]:
    columns = []
    for item in fields(cls):
        kind: Any = item.type
        if kind not in _READ:
            kind = next((t for t in get_args(kind) if t is not type(None)), kind)
        name = cls.wire_names.get(item.name) or camel(item.name)
        mandatory = item.default is NODEFAULT and item.default_factory is NODEFAULT
        columns.append(_Column(item.name, name, mandatory, _READ[kind], _WRITE[kind]))
    return tuple(columns)


def camel(name: str) -> str:
    """Turn snake_case into RocketMQ's camelCase: "queue_id" to "queueId"."""
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)

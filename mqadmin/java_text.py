"""Text as Java prints it: map order, values, number rounding, cut columns, dates."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import TypeVar

from mqcommon.names import java_hash

TIME_FORMAT = "%Y-%m-%d#%H:%M:%S:%f"
"""RocketMQ's yyyy-MM-dd#HH:mm:ss:SSS."""
_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def hash_order(keys: Iterable[str], capacity: int = 16) -> list[str]:
    """Strings in the order in which a Java HashMap or HashSet would list them.

    capacity: the capacity of the empty map.
    """
    return bucket_order(keys, java_hash, capacity)


def bucket_order(keys: Iterable[_K], hash_of: Callable[[_K], int], capacity: int = 16) -> list[_K]:
    """As `hash_order`, for keys of any type. hash_of: the `hashCode` of a key."""
    kept = list(dict.fromkeys(keys))
    while len(kept) > capacity * 0.75:
        capacity *= 2
    # The sort is stable: within a bucket the first inserted comes first.
    return sorted(kept, key=lambda key: spread(hash_of(key)) & (capacity - 1))


def spread(code: int) -> int:
    """The hash code from which `HashMap` and `ConcurrentHashMap` choose a bucket."""
    code &= 0xFFFFFFFF
    return code ^ code >> 16


def java_map(values: Mapping[str, object]) -> str:
    """A HashMap's toString: {a=1, b=2}."""
    return "{" + ", ".join(f"{key}={values[key]}" for key in hash_order(values)) + "}"


def in_hash_order(values: Mapping[str, _V]) -> list[tuple[str, _V]]:
    """The entries of a map in HashMap order."""
    return [(key, values[key]) for key in hash_order(values)]


def java_value(value: object) -> str:
    """A value's toString: true, null, 7."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def java_object(name: str, fields: Mapping[str, object]) -> str:
    """The toString of most of RocketMQ's classes: Name [a=1, b=true]."""
    parts = (f"{field}={java_value(value)}" for field, value in fields.items())
    return f"{name} [{', '.join(parts)}]"


def fixed(value: float, places: int) -> str:
    """`%.Nf` as Java does it: half up on the shortest decimal form, where Python is half even."""
    step = Decimal(1).scaleb(-places)
    return str(Decimal(repr(float(value))).quantize(step, ROUND_HALF_UP))


def front(text: str, width: int) -> str:
    """At most the first `width` characters: how RocketMQ keeps columns."""
    return text[:width]


def moment_of(timestamp_ms: int) -> datetime:
    """A time of RocketMQ's commands; one that a datetime cannot hold is the last that it can."""
    try:
        return _EPOCH + timedelta(milliseconds=timestamp_ms)
    except OverflowError:
        return _EPOCH if timestamp_ms < 0 else datetime.max.replace(tzinfo=UTC)


def milliseconds_of(moment: datetime) -> int:
    """An aware datetime in milliseconds since 1970."""
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def seconds_text(timestamp_ms: int) -> str:
    """Local time to the second: 2026-11-21 07:51:22."""
    return datetime.fromtimestamp(timestamp_ms / 1000).strftime("%Y-%m-%d %H:%M:%S")


def parse_time_ms(text: str) -> int:
    """Milliseconds since 1970, or a local time as yyyy-MM-dd#HH:mm:ss:SSS; raises ValueError."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return milliseconds_of(datetime.strptime(text, TIME_FORMAT).astimezone())
    except ValueError:
        raise ValueError(
            f"{text!r} is no time: give milliseconds, or yyyy-MM-dd#HH:mm:ss:SSS"
        ) from None


def millis_text(timestamp_ms: int) -> str:
    """Local time to the millisecond: 2026-11-21 07:51:18,063."""
    seconds, millis = divmod(timestamp_ms, 1000)
    return f"{seconds_text(seconds * 1000)},{millis:03d}"


def perm_text(perm: int) -> str:
    """A topic's permission as RocketMQ shows it: RW-, R--, RWX."""
    bits = ((4, "R"), (2, "W"), (1, "X"))
    return "".join(letter if perm & bit else "-" for bit, letter in bits)

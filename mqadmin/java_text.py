"""Text as Java prints it: map order, number rounding, cut columns, dates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import ROUND_HALF_UP, Decimal
from typing import TypeVar

from mqcommon.names import java_hash

_V = TypeVar("_V")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def hash_order(keys: Iterable[str], capacity: int = 16) -> list[str]:
    """Strings in the order in which a Java HashMap or HashSet would list them.

    capacity: the capacity of the empty map.
    """
    kept = list(dict.fromkeys(keys))
    while len(kept) > capacity * 0.75:
        capacity *= 2

    def bucket(key: str) -> int:
        code = java_hash(key) & 0xFFFFFFFF
        return (code ^ code >> 16) & (capacity - 1)

    return sorted(kept, key=bucket)  # stable: within a bucket the first inserted comes first


def java_map(values: Mapping[str, object]) -> str:
    """A HashMap's toString: {a=1, b=2}."""
    return "{" + ", ".join(f"{key}={values[key]}" for key in hash_order(values)) + "}"


def in_hash_order(values: Mapping[str, _V]) -> list[tuple[str, _V]]:
    """The entries of a map in HashMap order."""
    return [(key, values[key]) for key in hash_order(values)]


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
        return int(datetime.strptime(text, "%Y-%m-%d#%H:%M:%S:%f").timestamp() * 1000)
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

"""Checks of settings: durations, addresses, names of topics and groups, numbers."""

import ipaddress
import os
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from types import MappingProxyType

from mqclient.settings.declare import ANSWER_MAX_S, INTERVAL_MAX_S
from mqcommon import names

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NAMESRV_DEFAULT = "127.0.0.1:9876"
_ADDRESS_SERVER = re.compile(r"http://[^/\s;,]+/[^\s;,]*[^/\s;,]")


def seconds(
    duration: float, name: str = "timeout", floor: float = 0.0, ceiling: float = INTERVAL_MAX_S
) -> float:
    """Check a number of seconds; ValueError out of the range, TypeError for other types."""
    if isinstance(duration, bool) or not isinstance(duration, (int, float)):
        raise TypeError(f"{name} must be a number of seconds, not {duration!r}")
    if not duration >= floor:
        raise ValueError(f"{name} must be at least {floor:g} seconds, not {duration:g}")
    if duration > ceiling:
        hint = "; give seconds, not milliseconds" if duration / 1000 <= ceiling else ""
        raise ValueError(f"{name} must be at most {ceiling:g} seconds, not {duration:g}{hint}")
    return float(duration)


def answer_timeout(timeout: float) -> float:
    """Check the seconds that a call waits for a server. Raises as `seconds` does."""
    return seconds(timeout, ceiling=ANSWER_MAX_S)


def milliseconds(name: str, when: datetime) -> int:
    """An aware datetime in milliseconds since 1970, 0 for a time before.

    Raises TypeError for another type, ValueError without a time zone.
    """
    if not isinstance(when, datetime):
        raise TypeError(f"{name} must be a datetime, not {type(when).__name__}")
    if when.tzinfo is None:
        raise ValueError(f"{name} needs a datetime with a time zone: datetime.now(UTC)")
    return max((when - _EPOCH) // timedelta(milliseconds=1), 0)


def moment(timestamp_ms: int) -> datetime:
    """Milliseconds since 1970 as an aware datetime."""
    return _EPOCH + timedelta(milliseconds=timestamp_ms)


def namesrv_addresses(namesrv: str | Iterable[str] | None) -> tuple[str, ...]:
    """Read NameServer addresses: "host:port", several by ";" or as a list.

    None means the environment's NAMESRV_ADDR, else 127.0.0.1:9876. A missing port is 9876. One URL
    with a path, http://HOST/rocketmq/nsaddr, names an address server and stays as it is.
    Raises ValueError for an invalid address.
    """
    if namesrv is None:
        namesrv = os.environ.get("NAMESRV_ADDR") or NAMESRV_DEFAULT
    parts = re.split(r"[;,]", namesrv) if isinstance(namesrv, str) else _texts(namesrv)
    if len(parts) == 1 and is_address_server(parts[0].strip()):
        return (parts[0].strip(),)
    addresses = tuple(dict.fromkeys(_address(part) for part in parts if part.strip()))
    if not addresses:
        raise ValueError(f"namesrv {namesrv!r} names no NameServer; give host:port")
    return addresses


def _texts(namesrv: object) -> list[str]:
    texts = []
    several = isinstance(namesrv, Iterable) and not isinstance(namesrv, Mapping)
    for part in namesrv if several else (namesrv,):  # type: ignore[attr-defined]
        if not isinstance(part, str):
            given = type(part if isinstance(namesrv, (list, tuple)) else namesrv).__name__
            raise TypeError(f"namesrv must be host:port as str, or a list of them, not {given}")
        texts.append(part)
    return texts


def is_address_server(address: str) -> bool:
    """Whether the text is the URL of an address server, which has a path."""
    return bool(_ADDRESS_SERVER.fullmatch(address))


def _address(text: str) -> str:
    text = text.strip().removeprefix("http://").rstrip("/")
    host, colon, port = text.rpartition(":")
    if not colon or (text.count(":") > 1 and not host.endswith("]")):
        host, port = text, "9876"
    legal_host = (
        bool(host) and not re.search(r"[/\s]", host) and (":" not in host or _is_ipv6(host))
    )
    if not legal_host or not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"{text!r} is not an address; give host:port, for example 127.0.0.1:9876")
    return f"{host}:{port}"


def _is_ipv6(host: str) -> bool:
    try:
        ipaddress.IPv6Address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    return True


def read_address_map(text: str) -> dict[str, str]:
    """Read "advertised=used,...", the text form of `address_map`; raises ValueError."""
    pairs = [pair.partition("=") for pair in text.split(",") if pair.strip()]
    for advertised, equals, _ in pairs:
        if not equals:
            raise ValueError(f"address map {advertised!r} must be HOST:PORT=HOST:PORT")
    return {_address(advertised): _address(used) for advertised, _, used in pairs}


def check_topic(topic: str) -> str:
    """Return a legal topic name; raises TypeError or ValueError naming the rule it breaks."""
    return _check_name("topic", topic, names.TOPIC_LENGTH_MAX)


def check_readable(topic: str) -> str:
    """Return a topic to read; its name may be one that can no longer be created.

    Raises TypeError or ValueError naming the rule it breaks.
    """
    if not isinstance(topic, str):
        raise TypeError(f"topic must be str, not {type(topic).__name__}")
    if not topic.strip():
        raise ValueError("topic must not be blank")
    return topic


@lru_cache(1024)
def check_sendable(topic: str) -> str:
    """Return a topic that users may send to; RocketMQ's own topics are refused."""
    if topic in names.NO_SENDING:
        raise ValueError(f"topic {topic!r} is reserved by RocketMQ; send to another topic")
    return _check_name("topic", topic, names.TOPIC_LENGTH_MAX)


def check_group(group: str) -> str:
    """Return a legal group name that is not one of Java's placeholders."""
    if group in names.PLACEHOLDER_GROUPS:
        raise ValueError(f"group {group!r} is a placeholder of RocketMQ; use another name")
    return _check_name("group", group, names.GROUP_LENGTH_MAX)


def _check_name(kind: str, name: str, length_max: int) -> str:
    if not isinstance(name, str):
        raise TypeError(f"{kind} must be str, not {type(name).__name__}")
    if not name.strip():
        raise ValueError(f"{kind} must not be blank")
    if len(name) > length_max:
        raise ValueError(f"{kind} has {len(name)} characters; at most {length_max} are allowed")
    if not names.has_legal_characters(name):
        raise ValueError(f"{kind} {name!r} may hold only letters, digits and % | _ -")
    return name


def checked_map(addresses: Mapping[str, str]) -> Mapping[str, str]:
    """An address map that cannot change, each address checked."""
    if not isinstance(addresses, Mapping):
        raise TypeError(
            "address_map must be a mapping of 'HOST:PORT' to 'HOST:PORT', "
            f"not {type(addresses).__name__}"
        )
    for address in (part for pair in addresses.items() for part in pair):
        if not isinstance(address, str):
            raise TypeError(f"address_map holds {address!r}; an address must be str")
        if _address(address) != address:
            raise ValueError(f"address_map holds {address!r}, which is not HOST:PORT")
    return MappingProxyType(dict(addresses))


def check_range(name: str, value: int, low: int, high: int) -> None:
    """Raise TypeError unless a value is an int, ValueError unless it is from low to high."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be int, not {type(value).__name__}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be {low} to {high}, not {value}")

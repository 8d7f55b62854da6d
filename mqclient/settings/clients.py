"""Settings of clients: frozen value objects, one per kind, checked when they are made.

Durations are seconds, as float or timedelta; sizes are bytes. RocketMQ's defaults and limits.
"""

import ipaddress
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from difflib import get_close_matches
from functools import lru_cache
from types import MappingProxyType
from typing import Any, TypedDict, TypeVar

from mqclient.engine.namespace import Namespace, check_namespace
from mqclient.engine.tls import Tls
from mqclient.producer.compression import Compression, check_compression
from mqcommon import names
from mqcommon.own_address import own_address
from mqcommon.wire.codes import SerializeType

__all__ = ["ClientSettings", "ProducerSettings", "TransactionSettings"]

NAMESRV_DEFAULT = "127.0.0.1:9876"
BODY_BYTES_MAX = 4 * 1024 * 1024

Duration = float | timedelta
BeforeSend = Callable[[Any], object]
"""Gets the message, or the list of messages, that will be sent."""
AfterSend = Callable[[Any, Any, Exception | None], object]
"""Gets the message or list, its SendResult or None, and the exception or None."""

_ADDRESS_SERVER = re.compile(r"http://[^/\s;,]+/[^\s;,]*[^/\s;,]")


def seconds(duration: Duration, name: str = "timeout", floor: float = 0.0) -> float:
    """Turn a duration into seconds; ValueError below the floor, TypeError for other types."""
    if isinstance(duration, timedelta):
        duration = duration.total_seconds()
    if isinstance(duration, bool) or not isinstance(duration, (int, float)):
        raise TypeError(f"{name} must be seconds or a timedelta, not {type(duration).__name__}")
    if not duration >= floor:
        raise ValueError(f"{name} must be at least {floor:g} s, not {duration:g}")
    return float(duration)


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


def _instance_name() -> str:
    return f"{os.getpid()}#{time.monotonic_ns()}"


def _checked_map(addresses: Mapping[str, str] | None) -> Mapping[str, str]:
    if addresses is None:
        return MappingProxyType({})
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


def set_seconds(settings: object, name: str, floor: float) -> None:
    """Turn a field of a frozen settings object into seconds; raises as `seconds` does."""
    object.__setattr__(settings, name, seconds(getattr(settings, name), name, floor))


class Credentials(TypedDict, total=False):
    """An account's keys, as arguments of every client."""

    access_key: str
    secret_key: str
    security_token: str


def credentials(access: str | None, secret: str | None, token: str | None) -> Credentials:
    """The keys of an account that are given; empty without access_key and secret_key."""
    if not access or not secret:
        return {}
    keys: Credentials = {"access_key": access, "secret_key": secret}
    if token:
        keys["security_token"] = token
    return keys


@dataclass(frozen=True, kw_only=True, slots=True)
class ClientSettings:
    """Settings of every client. All durations in seconds.

    namesrv: NameServers as "host:port", tried in turn, or the URL of an address server.
    address_map: mapping of a broker's advertised address to the address to connect to, for brokers
    behind a NAT or a port forwarding.
    client_ip: first part of the client id "ip@instance[@unit]"; None takes the address of the
    outgoing interface.
    instance_name: second part of the client id; None takes "pid#nanotime", which is unique.
    unit_name: optional last part of the client id.
    namespace: prefix that the client adds to the names of topics and groups on the wire, as
    RocketMQ's setNamespace does; None adds nothing.
    request_timeout: longest time to wait for the answer to one request.
    route_poll_interval: time between two requests for the routes of the topics in use.
    heartbeat_interval: time between two heartbeats to each broker.
    serialize: format of request headers; None sends and pulls in RocketMQ's binary format, which
    takes less CPU on both sides, and uses JSON for all other requests.
    access_key: name of the account that signs requests, for brokers with access control; needs
    secret_key.
    secret_key: secret of that account.
    security_token: optional token of that account, sent with each signed request.
    tls: TLS options for connections to NameServers and brokers; True trusts the system's
    certificate authorities.
    """

    namesrv: tuple[str, ...] = (NAMESRV_DEFAULT,)
    address_map: Mapping[str, str] = field(default_factory=dict)
    client_ip: str | None = None
    instance_name: str | None = None
    unit_name: str | None = None
    namespace: str | None = None
    request_timeout: float = 3.0
    route_poll_interval: float = 30.0
    heartbeat_interval: float = 30.0
    serialize: SerializeType | None = None
    access_key: str | None = None
    secret_key: str | None = field(default=None, repr=False)
    security_token: str | None = field(default=None, repr=False)
    tls: Tls | bool | None = None

    def __post_init__(self) -> None:
        for name in ("request_timeout", "route_poll_interval", "heartbeat_interval"):
            set_seconds(self, name, 0.001)
        for name in (
            "client_ip",
            "instance_name",
            "unit_name",
            "namespace",
            *Credentials.__annotations__,
        ):
            check_type(name, getattr(self, name), str | None, "str")
        if self.namespace is not None:
            check_namespace(self.namespace)
        if bool(self.access_key) != bool(self.secret_key):
            raise ValueError("access_key and secret_key go together: give both or neither")
        check_type("serialize", self.serialize, SerializeType | None, "a SerializeType")
        check_type("tls", self.tls, Tls | bool | None, "a Tls or bool")
        object.__setattr__(self, "address_map", _checked_map(self.address_map))

    def transport(self) -> dict[str, Any]:
        """Arguments of a transport: the account, and TLS."""
        tls = Tls() if self.tls is True else self.tls or None
        return {**self.credentials(), **({"tls": tls.settings()} if tls else {})}

    def credentials(self) -> Credentials:
        """The account that a transport signs with; empty without an account."""
        return credentials(self.access_key, self.secret_key, self.security_token)

    def client_id(self) -> str:
        """Make the id under which brokers know this client; call it once per client."""
        parts = [self.client_ip or own_address(), self.instance_name or _instance_name()]
        return "@".join([*parts, self.unit_name] if self.unit_name else parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerSettings:
    """How a producer sends.

    group: producer group.
    timeout: longest time for a whole send, retries included.
    retries: most retries of a failed send; None retries until the timeout.
    retry_not_durable: send again to another broker if the first one stored the message less
    durably than requested; makes duplicates.
    compress_from: smallest body in bytes that is compressed; 0 compresses nothing.
    compression: "zlib", which every consumer reads, "zstd" or "lz4" (extra `lz4`).
    compress_level: level of zlib, 0 to 9, or of zstd, 1 to 22; higher is smaller and slower.
    body_bytes_max: largest body in bytes; a larger message raises ValueError.
    default_topic_queues: queues of a topic that the broker creates on the first send.
    queue_index_start: index of the first queue to use; None starts at a random one, as RocketMQ
    does.
    linger: time for which a send waits for other messages of its topic, to leave with them as one
    batch; 0 sends at once.
    linger_count_max: messages at which a lingering batch leaves without further waiting.
    linger_bytes_max: bytes at which a lingering batch leaves without further waiting.
    latency_fault: avoid brokers with slow or failed sends, as sendLatencyFaultEnable does.
    before_send: function called before each send, with the message or the list of messages.
    after_send: function called after each send, with the message or list, the SendResult or None,
    and the exception or None.
    in_flight_max: most messages in flight; further sends wait until their timeout; None sets no
    limit.
    in_flight_bytes_max: most bytes of bodies in flight; further sends wait until their timeout;
    None sets no limit.
    trace: send a record of each stored message to trace_topic, for RocketMQ's mqadmin
    queryMsgTraceById.
    trace_topic: topic for the trace records.
    """

    group: str = "PYTHON_PRODUCER"
    timeout: float = 3.0
    retries: int | None = None
    retry_not_durable: bool = False
    compress_from: int = 4096
    compression: Compression = "zlib"
    compress_level: int = 5
    body_bytes_max: int = BODY_BYTES_MAX
    default_topic_queues: int = 4
    queue_index_start: int | None = None
    linger: float = 0.0
    linger_count_max: int = 128
    linger_bytes_max: int = 256 * 1024
    latency_fault: bool = False
    before_send: BeforeSend | None = None
    after_send: AfterSend | None = None
    in_flight_max: int | None = None
    in_flight_bytes_max: int | None = None
    trace: bool = False
    trace_topic: str = names.TRACE_TOPIC

    def __post_init__(self) -> None:
        check_group(self.group)
        set_seconds(self, "timeout", 0.001)
        if self.retries is not None:
            check_range("retries", self.retries, 0, 100)
        check_range("compress_from", self.compress_from, 0, 1 << 31)
        check_range("compress_level", self.compress_level, *check_compression(self.compression))
        check_range("body_bytes_max", self.body_bytes_max, 1, 1 << 30)
        set_seconds(self, "linger", 0.0)
        check_range("linger_count_max", self.linger_count_max, 1, 10_000)
        check_range("linger_bytes_max", self.linger_bytes_max, 1, 1 << 30)
        check_range("default_topic_queues", self.default_topic_queues, 1, 65535)
        check_type("retry_not_durable", self.retry_not_durable, bool, "bool")
        for name in ("trace", "latency_fault"):
            check_type(name, getattr(self, name), bool, "bool")
        for name in ("before_send", "after_send"):
            check_type(name, getattr(self, name), Callable | None, "a function")
        for name in ("in_flight_max", "in_flight_bytes_max"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 1, 1 << 40)
        check_sendable(self.trace_topic)
        if self.queue_index_start is not None:
            check_range("queue_index_start", self.queue_index_start, 0, 1 << 31)


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionSettings(ProducerSettings):
    """How a transaction producer sends, and answers brokers' checks.

    check_concurrency: checks that run in parallel.
    check_backlog: most checks that wait to run; further checks are dropped, and the
    broker asks again later.
    topics: topics to announce the producer for at its start, so that their brokers can send it
    checks for messages from before a restart; needed only if the brokers do not create topics
    (autoCreateTopicEnable=false).
    """

    check_concurrency: int = 1
    check_backlog: int = 2000
    topics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ProducerSettings.__post_init__(self)
        check_range("check_concurrency", self.check_concurrency, 1, 1000)
        check_range("check_backlog", self.check_backlog, 1, 1_000_000)
        if isinstance(self.topics, str):
            raise TypeError("topics must be a list of topics, not str")
        object.__setattr__(self, "topics", tuple(map(check_topic, self.topics)))


def check_range(name: str, value: int, low: int, high: int) -> None:
    """Raise TypeError unless a value is an int, ValueError unless it is from low to high."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be int, not {type(value).__name__}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be {low} to {high}, not {value}")


def check_type(name: str, value: object, kind: Any, words: str) -> None:
    """Raise TypeError unless a value has a type. words: what it must be."""
    if not isinstance(value, kind):
        raise TypeError(f"{name} must be {words}, not {type(value).__name__}")


class ClientOptions(Credentials, total=False):
    """Keyword arguments of every client: the fields of ClientSettings without namesrv."""

    address_map: Mapping[str, str]
    client_ip: str | None
    instance_name: str | None
    unit_name: str | None
    namespace: str | None
    request_timeout: Duration
    route_poll_interval: Duration
    heartbeat_interval: Duration
    serialize: SerializeType | None
    tls: Tls | bool | None


class SendOptions(ClientOptions, total=False):
    """Keyword arguments of every producer: the fields of ProducerSettings but its group, and of
    ClientOptions."""

    timeout: Duration
    retries: int | None
    retry_not_durable: bool
    compress_from: int
    compression: Compression
    compress_level: int
    body_bytes_max: int
    default_topic_queues: int
    queue_index_start: int | None
    linger: Duration
    linger_count_max: int
    linger_bytes_max: int
    latency_fault: bool
    before_send: BeforeSend | None
    after_send: AfterSend | None
    in_flight_max: int | None
    in_flight_bytes_max: int | None
    trace: bool
    trace_topic: str


class ProducerOptions(SendOptions, total=False):
    """Keyword arguments of a producer: SendOptions and its group."""

    group: str


class TransactionOptions(SendOptions, total=False):
    """Keyword arguments of a transaction producer: the fields of TransactionSettings besides."""

    check_concurrency: int
    check_backlog: int
    topics: Iterable[str]


S = TypeVar("S")


def split_options(
    namesrv: str | Iterable[str] | None, options: Mapping[str, Any], kind: type[S]
) -> tuple[ClientSettings, S]:
    """Make both settings objects from a client's arguments.

    options: keyword arguments, each a field of ClientSettings or of `kind`. A group gets the
    namespace. Raises TypeError for an unknown one, naming the nearest.
    """
    common = {item.name for item in fields(ClientSettings)} - {"namesrv"}
    own = {item.name for item in fields(kind)}  # type: ignore[arg-type]
    _check_names(options, common | own)
    client = ClientSettings(
        namesrv=namesrv_addresses(namesrv),
        **{name: value for name, value in options.items() if name in common},
    )
    values = {name: value for name, value in options.items() if name in own}
    if client.namespace is not None and values.get("group"):
        kind(**values)  # the error for a bad group names it as given
        values["group"] = Namespace(client.namespace).wrap(values["group"])
    return client, kind(**values)


def client_settings(
    namesrv: str | Iterable[str] | None, options: Mapping[str, Any]
) -> ClientSettings:
    """ClientSettings from keyword arguments; TypeError for an unknown one."""
    _check_names(options, {item.name for item in fields(ClientSettings)} - {"namesrv"})
    return ClientSettings(namesrv=namesrv_addresses(namesrv), **options)


def _check_names(options: Mapping[str, Any], known: set[str]) -> None:
    for name in options:
        if name not in known:
            near = get_close_matches(name, sorted(known), 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise TypeError(f"unknown argument {name!r}{hint}")

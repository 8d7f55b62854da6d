"""Settings of every client, and how options become settings."""

import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, TypedDict, TypeVar

from mqclient.engine.namespace import Namespace, check_namespace
from mqclient.engine.tls import Tls
from mqclient.settings.checks import (
    NAMESRV_DEFAULT,
    Duration,
    check_type,
    checked_map,
    namesrv_addresses,
    set_seconds,
)
from mqcommon.own_address import own_address
from mqcommon.wire.codes import SerializeType

__all__ = ["ClientSettings"]


def _instance_name() -> str:
    return f"{os.getpid()}#{time.monotonic_ns()}"


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
        object.__setattr__(self, "address_map", checked_map(self.address_map))

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

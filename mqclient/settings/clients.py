"""Options of every client."""

import os
import time
from collections.abc import Iterable
from dataclasses import KW_ONLY
from typing import Annotated, Any, cast

from mqclient.engine.metrics import check_metrics
from mqclient.engine.namespace import check_namespace
from mqclient.engine.tls import TlsConfig, connector_tls
from mqclient.engine.transport_like import TransportLike
from mqclient.settings.checks import namesrv_addresses
from mqclient.settings.connection import Connection
from mqclient.settings.declare import (
    ANSWER_MAX_S,
    Declared,
    Option,
    by_value,
    declared,
    narrowed,
)
from mqclient.settings.identity import Account, ClientId, Credentials, account_of
from mqcommon.own_address import own_address

__all__ = ["AdminOptions", "ClientOptions", "ConnectionOptions", "Namesrv", "connection_of"]


def _transport(name: str, given: Any) -> Any:
    if not callable(getattr(given, "call", None)):
        raise TypeError(f"{name} must be a transport such as MockTransport(), not {given!r}")
    return given


def _namespace(name: str, given: Any) -> str:
    if not isinstance(given, str):
        raise TypeError(f"{name} must be str or None, not {given!r}")
    return check_namespace(given)


Namesrv = Annotated[
    str | Iterable[str] | None,
    Option(
        'NameServers "host:port", several by ";" or as a list, or the URL of an address server; '
        "None takes NAMESRV_ADDR, else 127.0.0.1:9876",
        read=by_value(namesrv_addresses),
        reads_none=True,
        kind="str | list[str]",
    ),
]

COUNTS = Option(
    "counts the client's work: PrometheusMetrics(), OpenTelemetryMetrics(), or an object with add "
    "and set; None counts nothing",
    read=check_metrics,
    kind="ClientMetrics",
)


@declared
class ClientOptions(Declared):
    """Options of every client."""

    last = ("namespace", "credentials", "tls", "client_id", "connection", "transport")

    _: KW_ONLY
    namespace: Annotated[
        str | None,
        Option(
            "prefix that the client adds to the names of topics and groups on the wire, as "
            "RocketMQ's setNamespace does",
            read=_namespace,
            kind="str",
        ),
    ] = None
    credentials: Annotated[
        Credentials | None,
        Option("account that signs requests, for brokers with access control"),
    ] = None
    tls: Annotated[
        TlsConfig | None,
        Option("TLS for connections to NameServers and brokers; None connects without TLS"),
    ] = None
    client_id: Annotated[ClientId, Option("parts of the id that brokers know")] = ClientId()
    connection: Annotated[
        Connection,
        Option(
            "request timeout, address map, format of headers, intervals of heartbeats and routes"
        ),
    ] = Connection()
    transport: Annotated[
        TransportLike | None,
        Option(
            "transport to send with, such as MockTransport() in tests; None makes connections",
            read=_transport,
            kind="TransportLike",
        ),
    ] = None


@declared
class ConnectionOptions(ClientOptions):
    """The options of every client, and no others."""

    namesrv: Namesrv = None

    @property
    def servers(self) -> tuple[str, ...]:
        """The NameServers' addresses, or the URL of an address server."""
        return cast(tuple[str, ...], self.namesrv)

    def transport_arguments(self) -> dict[str, Any]:
        """Arguments of a transport: the account, and TLS."""
        return {**self.account(), **({"tls": connector_tls(self.tls)} if self.tls else {})}

    def account(self) -> Account:
        """The account that a transport signs with; empty without an account."""
        return account_of(self.credentials) if self.credentials else {}

    def new_client_id(self) -> str:
        """Make the id under which brokers know a client; call it once per client."""
        parts = self.client_id
        instance = parts.instance or f"{os.getpid()}#{time.monotonic_ns()}"
        made = [parts.ip or own_address(), instance]
        return "@".join([*made, parts.unit] if parts.unit else made)


def connection_of(options: ClientOptions) -> ConnectionOptions:
    """The options that clients must have in common to share connections."""
    return narrowed(options, ConnectionOptions)


@declared
class AdminOptions(ClientOptions):
    """Options of an Admin."""

    refused = {
        "namespace": "Admin cannot work in a namespace, as administration sees names as brokers "
        "store them; write it into the names of topics and groups: NAMESPACE%TOPIC"
    }

    namesrv: Namesrv = None
    _: KW_ONLY
    timeout: Annotated[
        float,
        Option(
            "time to wait for one answer; statistics get three times as long",
            "s",
            0.001,
            ANSWER_MAX_S,
        ),
    ] = 5.0

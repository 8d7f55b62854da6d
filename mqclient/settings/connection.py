"""How a client talks with its servers. A client of any kind imports it, unlike `values`."""

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Annotated

from mqclient.settings.checks import checked_map
from mqclient.settings.declare import (
    ANSWER_MAX_S,
    INTERVAL_MAX_S,
    Declared,
    Option,
    by_value,
    declared,
)
from mqcommon.wire.codes import SerializeType

__all__ = ["Connection"]


@declared
class Connection(Declared):
    """How a client talks with NameServers and brokers.

    Connection(request_timeout=5.0)
    """

    _: KW_ONLY
    request_timeout: Annotated[
        float,
        Option("longest time to wait for the answer to one request", "s", 0.001, ANSWER_MAX_S),
    ] = 3.0
    address_map: Annotated[
        Mapping[str, str] | None,
        Option(
            "broker's advertised address to the address to connect to, for brokers behind a NAT "
            "or a port forwarding",
            read=by_value(checked_map),
            kind="dict[str, str]",
        ),
    ] = None
    serialize: Annotated[
        SerializeType | None,
        Option(
            "format of request headers; None sends and pulls in RocketMQ's binary format, which "
            "takes less CPU on both sides, and uses JSON for all other requests"
        ),
    ] = None
    route_poll_interval: Annotated[
        float,
        Option(
            "time between two requests for the routes of the topics in use",
            "s",
            0.001,
            INTERVAL_MAX_S,
        ),
    ] = 30.0
    heartbeat_interval: Annotated[
        float, Option("time between two heartbeats to each broker", "s", 0.001, INTERVAL_MAX_S)
    ] = 30.0

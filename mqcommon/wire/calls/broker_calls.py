"""Calls about a broker: settings, figures, cleaning."""

from __future__ import annotations

from mqcommon.wire.bodies.common import KVTable
from mqcommon.wire.bodies.groups import BrokerStatsData, ConsumeStatsList
from mqcommon.wire.calls.call import Call
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import request_frame
from mqcommon.wire.headers.admin import (
    GetConsumeStatsInBrokerHeader,
    ViewBrokerStatsDataRequestHeader,
)
from mqcommon.wire.reply_bounds import read_config


def broker_runtime() -> Call[dict[str, str]]:
    """A broker's runtime figures by name."""
    return Call(
        request_frame(RequestCode.GET_BROKER_RUNTIME_INFO),
        lambda reply: KVTable.from_json(reply.body).table,
    )


def broker_config() -> Call[str]:
    """A broker's configuration as properties text."""
    return Call(request_frame(RequestCode.GET_BROKER_CONFIG), lambda reply: read_config(reply.body))


def broker_stats(name: str, key: str) -> Call[BrokerStatsData]:
    """One of a broker's statistics."""
    header = ViewBrokerStatsDataRequestHeader(stats_name=name, stats_key=key)
    request = request_frame(RequestCode.VIEW_BROKER_STATS_DATA, header)
    return Call(request, lambda reply: BrokerStatsData.from_json(reply.body))


def broker_consume_stats(*, ordered: bool) -> Call[ConsumeStatsList]:
    """Progress of all groups of a broker, or of the ordered groups only."""
    header = GetConsumeStatsInBrokerHeader(is_order=ordered)
    request = request_frame(RequestCode.GET_BROKER_CONSUME_STATS, header)
    return Call(request, lambda reply: ConsumeStatsList.from_json(reply.body))


def update_broker_config(properties: str) -> Call[None]:
    """Change a running broker's configuration. properties: lines `key=value`."""
    request = request_frame(RequestCode.UPDATE_BROKER_CONFIG, body=properties.encode())
    return Call(request, lambda reply: None)


def clean(code: RequestCode) -> Call[None]:
    """A request on which a broker deletes data that it no longer needs."""
    return Call(request_frame(code), lambda reply: None)

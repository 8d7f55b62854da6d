"""Renders route bodies in two JSON dialects; the Rust data plane caches them (`RouteInfoManager`).

`std` is for clients of version 401 or later, and for requests that ask for standard JSON: numeric
keys are quoted, keys are sorted, non-ASCII characters are escaped. `legacy` is fastjson's own style
with bare numeric keys. Each broker also has `enableActingMaster`: clients of RocketMQ 5 cannot read
a route without it, and clients of 4.9 ignore it.

A route is joined from cached pieces, because a hundred brokers have few distinct rows of queues.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from mqcommon import fastjson
from mqcommon.wire.bodies.registration import Row
from mqcommon.wire.bodies.route import BrokerData, ClusterInfo, QueueData

STANDARD = "std"
LEGACY = "legacy"
_VERSION_4_9_4 = 401
_PIECES_MAX = 16_384
"""Most cached pieces of each kind; a piece has about 100 characters."""
_LISTS_MAX = 256
_lists: dict[tuple[str | int, ...], tuple[list[BrokerData], str]] = {}
_ESCAPE = re.compile(r"\\u[0-9a-f]{4}")


def style_of(version: int, accept_standard_json_only: bool) -> str:
    """The dialect of the answer to a route request."""
    return STANDARD if version >= _VERSION_4_9_4 or accept_standard_json_only else LEGACY


def answer_key(style: str, topic: str) -> str:
    """The key under which the Rust data plane caches a route body."""
    return f"105|{style}|{topic}"


def route_body(
    brokers: list[BrokerData],
    queues: Mapping[str, Row],
    filters: Mapping[str, list[str]],
    order: str | None,
    style: str,
) -> bytes:
    """A route as JSON of one dialect.

    brokers: objects that never change in place. queues: rows by broker name. order: the
    configuration of an ordered topic, None for other topics.
    """
    queue_datas = ",".join([_queues(name, row, style) for name, row in queues.items()])
    ordered = "" if order is None else f'"orderTopicConf":{_written(order, style)},'
    servers = _written(dict(filters), style) if filters else "{}"
    return (
        f'{{"brokerDatas":[{_brokers(brokers, style)}],"filterServerTable":{servers},{ordered}'
        f'"queueDatas":[{queue_datas}]}}'
    ).encode()


def _brokers(brokers: list[BrokerData], style: str) -> str:
    """The brokers as JSON, cached by identity, as most topics share the brokers of others."""
    key: tuple[str | int, ...] = (style, *map(id, brokers))
    known = _lists.get(key)
    if known is None:
        if len(_lists) >= _LISTS_MAX:
            _lists.clear()
        pieces = [
            _broker(b.broker_name, b.cluster, tuple(b.broker_addrs.items()), style) for b in brokers
        ]
        known = _lists[key] = (brokers, ",".join(pieces))
    return known[1]


@lru_cache(_PIECES_MAX)
def _broker(name: str, cluster: str | None, addrs: tuple[tuple[int, str], ...], style: str) -> str:
    plain = BrokerData(name, cluster, dict(addrs)).to_plain()
    return _written({**plain, "enableActingMaster": False}, style)


@lru_cache(_PIECES_MAX)
def _queues(name: str, row: Row, style: str) -> str:
    return _written(QueueData(name, *row).to_plain(), style)


def cluster_body(info: ClusterInfo) -> bytes:
    """All clusters as JSON, always in fastjson's own style."""
    return _written(info.to_plain(), LEGACY).encode()


def _written(plain: Any, style: str) -> str:
    if style == LEGACY:
        return fastjson.dumps(_bare_keys(plain))
    text = json.dumps(plain, separators=(",", ":"), sort_keys=True)
    return _ESCAPE.sub(lambda match: "\\u" + match.group()[2:].upper(), text)


def _bare_keys(plain: Any) -> Any:
    """A copy with integer keys that are written without quotes, as fastjson does."""
    if isinstance(plain, dict):
        return {
            fastjson.RawKey(str(key)) if isinstance(key, int) else key: _bare_keys(value)
            for key, value in plain.items()
        }
    return [_bare_keys(item) for item in plain] if isinstance(plain, list) else plain

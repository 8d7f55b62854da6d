"""Route bodies in the two JSON dialects, ready to be cached by the compiled plane.

`std`: what a request of version 401 or later gets, or one that asks for standard JSON: quoted
numeric keys, sorted, non-ASCII escaped. `legacy`: fastjson's own style, bare numeric keys.
Rules: `RouteInfoManager`. Each broker also says `enableActingMaster`: RocketMQ 5's clients
cannot read a route without it, those of 4.9 ignore it.

A route is put together of pieces that are kept: a hundred brokers have few shapes of queues.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from mqclient.wire.bodies.registration import Row
from mqclient.wire.bodies.route import BrokerData, ClusterInfo, QueueData
from mqstore import fastjson

STANDARD = "std"
LEGACY = "legacy"
_VERSION_4_9_4 = 401
_PIECES_MAX = 16_384
"""Kept of each kind; each has some 100 characters."""
_LISTS_MAX = 256
_lists: dict[tuple[str | int, ...], tuple[list[BrokerData], str]] = {}
_ESCAPE = re.compile(r"\\u[0-9a-f]{4}")


def style_of(version: int, accept_standard_json_only: bool) -> str:
    """The dialect a route request gets."""
    return STANDARD if version >= _VERSION_4_9_4 or accept_standard_json_only else LEGACY


def answer_key(style: str, topic: str) -> str:
    """The key under which the compiled plane finds a ready route body."""
    return f"105|{style}|{topic}"


def route_body(
    brokers: list[BrokerData],
    queues: Mapping[str, Row],
    filters: Mapping[str, list[str]],
    order: str | None,
    style: str,
) -> bytes:
    """A route as JSON of one dialect.

    brokers: never changed in place. queues: by broker name. order: for ordered topics.
    """
    queue_datas = ",".join([_queues(name, row, style) for name, row in queues.items()])
    ordered = "" if order is None else f'"orderTopicConf":{_written(order, style)},'
    servers = _written(dict(filters), style) if filters else "{}"
    return (
        f'{{"brokerDatas":[{_brokers(brokers, style)}],"filterServerTable":{servers},{ordered}'
        f'"queueDatas":[{queue_datas}]}}'
    ).encode()


def _brokers(brokers: list[BrokerData], style: str) -> str:
    """Most topics have the brokers of another topic: the same objects, which are kept as well."""
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
    """All clusters; always in fastjson's own style."""
    return _written(info.to_plain(), LEGACY).encode()


def _written(plain: Any, style: str) -> str:
    if style == LEGACY:
        return fastjson.dumps(_bare_keys(plain))
    import json  # not before the port is open

    text = json.dumps(plain, separators=(",", ":"), sort_keys=True)
    return _ESCAPE.sub(lambda match: "\\u" + match.group()[2:].upper(), text)


def _bare_keys(plain: Any) -> Any:
    """Integer keys without quotes, as fastjson writes them."""
    if isinstance(plain, dict):
        return {
            fastjson.RawKey(str(key)) if isinstance(key, int) else key: _bare_keys(value)
            for key, value in plain.items()
        }
    return [_bare_keys(item) for item in plain] if isinstance(plain, list) else plain

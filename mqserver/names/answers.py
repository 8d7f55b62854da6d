"""Route bodies in the two JSON dialects, ready to be cached by the compiled plane.

`std`: what a request of version 401 or later gets, or one that asks for standard JSON: quoted
numeric keys, sorted, non-ASCII escaped. `legacy`: fastjson's own style, bare numeric keys.
Rules: server.md A.5, wire.md 4.1.
"""

from __future__ import annotations

import json
import re
from typing import Any

from mqclient.wire.bodies.route import ClusterInfo, TopicRouteData
from mqstore import fastjson

STANDARD = "std"
LEGACY = "legacy"
_VERSION_4_9_4 = 401
_ESCAPE = re.compile(r"\\u[0-9a-f]{4}")


def style_of(version: int, accept_standard_json_only: bool) -> str:
    """The dialect a route request gets."""
    return STANDARD if version >= _VERSION_4_9_4 or accept_standard_json_only else LEGACY


def answer_key(style: str, topic: str) -> str:
    """The key under which the compiled plane finds a ready route body."""
    return f"105|{style}|{topic}"


def route_body(route: TopicRouteData, style: str) -> bytes:
    """A route as JSON of one dialect."""
    plain = route.to_plain()
    return _standard(plain) if style == STANDARD else _legacy(plain)


def cluster_body(info: ClusterInfo) -> bytes:
    """All clusters; always in fastjson's own style."""
    return _legacy(info.to_plain())


def _standard(plain: Any) -> bytes:
    text = json.dumps(plain, separators=(",", ":"), sort_keys=True)
    return _ESCAPE.sub(lambda match: "\\u" + match.group()[2:].upper(), text).encode()


def _legacy(plain: Any) -> bytes:
    return fastjson.dumps(_bare_keys(plain)).encode()


def _bare_keys(plain: Any) -> Any:
    """Integer keys without quotes, as fastjson writes them."""
    if isinstance(plain, dict):
        return {
            fastjson.RawKey(str(key)) if isinstance(key, int) else key: _bare_keys(value)
            for key, value in plain.items()
        }
    return [_bare_keys(item) for item in plain] if isinstance(plain, list) else plain

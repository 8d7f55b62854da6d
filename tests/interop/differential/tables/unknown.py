"""Unknown codes, configuration and figures (25, 26, 28, 305, 315, 328)."""

from __future__ import annotations

from tests.interop.differential.case import Case

UNSERVED = (13, 22, 23, 27, *range(209, 215), 301, 302, 39, 40, 220, 221, 326)
LATER = (361, 400, 401, 0, -1, 999, 32767)
OF_THE_NAMESRV = (100, 101, 103, 105, 106, 206)
CONFIG = b"noSuchKey=1"


def ask(name: str, code: int, body: bytes = b"", **fields: str) -> Case:
    return Case(name, code, fields or None, body)


CASES = [
    *(Case(f"code {code}", code, {}) for code in (*UNSERVED, *LATER, *OF_THE_NAMESRV)),
    Case("code 999 in binary", 999, {}, serialize=1),
    Case("code 999 at the VIP port", 999, {}, server="vip"),
    ask("get config", 26),
    ask("update config; unknown key", 25, CONFIG),
    ask("update config; empty body", 25),
    ask("update config; no text", 25, b"\xff\xfe\x00"),
    ask("update config; wrong type", 25, b"brokerPermission=x"),
    ask("update config; no pair", 25, b"brokerPermission"),
    ask("update config", 25, b"traceOn=true\n"),
    ask("runtime info", 28),
    ask("broker's system topics", 305),
    ask("all producers", 328),
    Case("statistics, unknown", 315, {"statsName": "TOPIC_PUT_NUMS", "statsKey": "NoSuch"}),
    Case("statistics, unknown name", 315, {"statsName": "NOPE", "statsKey": "x"}),
    Case("statistics, no fields", 315),
    Case("statistics, no key", 315, {"statsName": "TOPIC_PUT_NUMS"}),
]

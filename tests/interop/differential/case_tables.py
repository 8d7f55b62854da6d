"""The script: tables of requests, in the order in which they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module

from mqcommon.wire.codes import RequestCode as Code
from tests.interop.differential.case import Case

NAMES = (
    "names_kv",
    "names_routes",
    "names_bad",
    "state",
    "slaves",
    "send",
    "pull",
    "offsets",
    "clients",
    "topics",
    "groups",
    "query",
    "stored",
    "counted",
    "locks",
    "transactions",
    "unknown",
    "asked",
    "switches",
    "frames",
)
GUARDED = ("bad", "acl", "checks")
ONCE = ("state", "slaves", "stored", "counted", "asked", "switches", "frames", "names_bad")
"""Tables that are not sent again: they compare the whole state, or something other than requests.
"""
BINARY = "binary "
HELD = "6"


def _cases(name: str) -> tuple[Case, ...]:
    module = import_module(f"tests.interop.differential.tables.{name}")
    cases: Sequence[Case] = module.CASES
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), f"two cases of one name in {name}"
    return tuple(cases)


def _in_binary(name: str) -> tuple[Case, ...]:
    """The same requests once more, with ROCKETMQ headers, but none that only fills a queue, and
    none that is held: Java looks at those every 5 s only. Nor what shows which retries of the
    first time have been delivered: their ten seconds end when they end.
    """
    left_out = {Code.GET_ALL_TOPIC_LIST_FROM_NAMESERVER, Code.GET_ALL_DELAY_OFFSET}
    if name not in ("send", "transactions"):
        left_out.add(Code.SEND_MESSAGE_V2)
    again = (
        case
        for case in _PLAIN[name]
        if case.serialize == 0
        and bool(case.until) == bool(case.until_again)
        and case.code not in left_out
        and (case.fields or {}).get("sysFlag") != HELD
        and not (case.code == Code.GET_TOPIC_STATS_INFO and _is_of_retries(case))
    )
    # The queue's length depends on the requests that one side refused earlier.
    loose = ("queueOffset",)
    return tuple(
        replace(case, serialize=1, keep="", loose=case.loose + loose, until=case.until_again)
        for case in again
    )


def _is_of_retries(case: Case) -> bool:
    return (case.fields or {}).get("topic", "").startswith("%RETRY%")


_PLAIN = {name: _cases(name) for name in NAMES}
CASE_TABLES = {
    **_PLAIN,
    **{BINARY + name: _in_binary(name) for name in NAMES if name not in ONCE},
    **{name: _cases(name) for name in GUARDED},
}
GUARDED_TABLES = frozenset(GUARDED)

"""The script: families of requests, in the order in which they are sent."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from tests.interop.differential.case import Case

NAMES = (
    "names_kv",
    "names_routes",
    "state",
    "send",
    "pull",
    "offsets",
    "clients",
    "topics",
    "groups",
    "query",
    "locks",
    "transactions",
    "unknown",
)


def _cases(name: str) -> tuple[Case, ...]:
    module = import_module(f"tests.interop.differential.tables.{name}")
    cases: Sequence[Case] = module.CASES
    names = [case.name for case in cases]
    assert len(set(names)) == len(names), f"two cases of one name in {name}"
    return tuple(cases)


FAMILIES = {name: _cases(name) for name in NAMES}

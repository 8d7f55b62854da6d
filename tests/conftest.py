"""What holds for every test."""

from __future__ import annotations

import signal

import pytest
from hypothesis import settings

LONG_GROUPS = (
    "interop",
    "rocketmq-ports",
    "spark",
    "tests/interop/",
)
"""Groups, or how those of modules begin, in the order in which they begin."""


settings.register_profile("soak", max_examples=20_000, deadline=None)


def pytest_configure() -> None:
    """A shell has what it runs in the background ignore Ctrl-C, and all that is started there."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(trylast=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """One worker runs a module, in its order: servers that a module shares are started once, and
    no test misses what the one before it left there.
    """
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes minutes begins first, so that no worker has it left at the end."""
    if hasattr(config, "workerinput"):
        items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    group = item.get_closest_marker("xdist_group")
    name = group.args[0] if group else ""
    places = (place for place, long in enumerate(LONG_GROUPS) if name.startswith(long))
    return next(places, len(LONG_GROUPS))

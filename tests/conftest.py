"""What holds for every test."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

from tests.kinds import FOLDERS, kind_of

LONG_GROUPS = (
    "spark",
    "interop",
    "rocketmq-ports",
    "tests/spark/test_clusters",
    "tests/spark/test_stream_kill",
    "tests/interop/",
)
"""Groups of tests, or prefixes of module names, in the order in which they start."""


settings.register_profile("soak", max_examples=20_000, deadline=None)
settings.register_profile("check", max_examples=10)


def pytest_configure() -> None:
    """Restore Ctrl-C, which shells disable for background jobs, and set Spark's configuration."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["SPARK_CONF_DIR"] = str(Path(__file__).parent / "spark" / "conf")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m unit` does not even import the tests of other folders; nor do interop and spark."""
    wanted = config.option.markexpr
    folder = str(collection_path.relative_to(config.rootpath))
    other = folder != "tests" and FOLDERS.get(folder, wanted) != wanted
    return True if wanted in ("unit", "interop", "spark") and other else None


@pytest.hookimpl(trylast=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks each test with its kind, and with its group: one worker runs a module, in its order.
    Modules share servers that start once, and a test may need the state that earlier tests left.
    """
    path = item.nodeid.partition("::")[0]
    try:
        fixtures = getattr(item, "fixturenames", ())
        kind = kind_of(path, item.getparent(pytest.Module).obj, fixtures)
    except KeyError:
        raise pytest.UsageError(
            f"{path}: its folder has no kind; add it to tests/kinds.py"
        ) from None
    item.add_marker(kind)
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group(path))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Tests that take minutes start first, so that no worker runs one alone at the end."""
    if hasattr(config, "workerinput"):
        items.sort(key=_place)


def _place(item: pytest.Item) -> int:
    group = item.get_closest_marker("xdist_group")
    name = group.args[0] if group else ""
    places = (place for place, long in enumerate(LONG_GROUPS) if name.startswith(long))
    return next(places, len(LONG_GROUPS))

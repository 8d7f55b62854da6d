"""What holds for every test: a loaded machine may take its time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.hookimpl(trylast=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """One worker runs a module, in its order: servers that a module shares are started once, and
    no test misses what the one before it left there.
    """
    if item.get_closest_marker("xdist_group") is None:
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


@pytest.fixture(scope="session", autouse=True)
def patient_brokers() -> Iterator[None]:
    """Brokers under test refuse nothing because it waited, unless a test says so: by default a
    send may wait 200 ms only.
    """
    from mqserver import standalone

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(standalone.ALWAYS, "brokerFastFailureEnable", "false")
        yield

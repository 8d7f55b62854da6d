"""What holds for every test: a loaded machine may take its time."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="session", autouse=True)
def patient_brokers() -> Iterator[None]:
    """Brokers under test refuse nothing because it waited, unless a test says so: by default a
    send may wait 200 ms only.
    """
    from mqserver import standalone

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(standalone.ALWAYS, "brokerFastFailureEnable", "false")
        yield

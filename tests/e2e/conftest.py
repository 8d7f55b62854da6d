"""A broker for each data plane: the same tests, the same answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mqserver.embedded.standalone import Standalone

PLANES = ("native", "python")


@pytest.fixture(scope="module", params=PLANES)
def plane(request: pytest.FixtureRequest) -> str:
    """Who serves send and pull."""
    return str(request.param)


@pytest.fixture(scope="module")
def mq(plane: str) -> Iterator[Standalone]:
    """A NameServer and a broker on a temporary store."""
    with Standalone(settings={"dataPlane": plane, "enablePropertyFilter": "true"}) as both:
        yield both

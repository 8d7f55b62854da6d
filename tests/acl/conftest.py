"""A broker with access control for each data plane: the same tests, the same answers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqserver.embedded.in_process import InProcessServers
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from tests.acl.signing import home_with


@pytest.fixture(params=("native", "python"))
def plane(request: pytest.FixtureRequest) -> str:
    """Who serves send and pull."""
    return str(request.param)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A RocketMQ home with the recording's accounts."""
    return home_with(tmp_path / "home")


@pytest.fixture
def pair(plane: str, home: Path, tmp_path: Path) -> Iterator[InProcessServers]:
    """A NameServer and a broker that knows the accounts."""
    settings = {"dataPlane": plane, "aclEnable": "true", "rocketmqHome": str(home)}
    wanted = Standalone(tmp_path / "store", settings=settings)
    running = InProcessServers(wanted.namesrv_settings, wanted.broker_settings)
    running.start()
    yield running
    running.stop()


@pytest.fixture
def probe(pair: InProcessServers) -> Iterator[Probe]:
    """A connection to that broker."""
    with Probe(pair.broker, timeout=60) as probe:
        yield probe

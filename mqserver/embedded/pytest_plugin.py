"""Fixtures for tests that need a broker. Nothing is imported or started until one is used.

Under pytest-xdist every worker has a broker of its own, on free ports.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from mqserver.embedded.standalone import Standalone


@pytest.fixture(scope="session")
def mq_broker() -> Iterator[Standalone]:
    """A NameServer and a broker in this process, shared by the session: use topics of your own."""
    from mqserver.embedded.standalone import Standalone

    with Standalone() as broker:
        yield broker


@pytest.fixture(scope="session")
def mq_namesrv(mq_broker: Standalone) -> str:
    """Address of the NameServer of `mq_broker`, "host:port"."""
    return mq_broker.namesrv


@pytest.fixture(scope="session")
def mq_replicated() -> Iterator[Standalone]:
    """A NameServer, a SYNC_MASTER and a slave that has joined it, in this process, shared by the
    session: use topics of your own."""
    from mqserver.embedded.standalone import Standalone

    with Standalone(settings={"brokerRole": "SYNC_MASTER"}, slaves=1) as brokers:
        brokers.wait_replicated()
        yield brokers

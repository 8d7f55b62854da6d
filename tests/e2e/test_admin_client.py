"""`mqclient.Admin` at our servers, on both data planes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mqclient import Admin
from mqclient.aio import Admin as AsyncAdmin
from mqserver.embedded.standalone import Standalone
from tests.admin_scenarios import CLUSTER, SCENARIOS, Place


@pytest.fixture(scope="module")
def place(mq: Standalone) -> Iterator[Place]:
    with Admin(mq.namesrv) as admin:
        yield Place(admin, mq.namesrv, mq.broker_address)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_scenario(place: Place, scenario: Callable[[Place], None]) -> None:
    scenario(place)


async def test_the_asyncio_face(mq: Standalone) -> None:
    async with AsyncAdmin(mq.namesrv) as admin:
        await admin.namesrv.put_kv("py_aio", "k", "v")
        assert await admin.namesrv.kv_list("py_aio") == {"k": "v"}
        assert await admin.brokers.clean_unused_topics() == await admin.brokers.masters(CLUSTER)
        assert await admin.groups.config(mq.broker_address, "no_group") is None

"""`mqclient.Admin` at Java's servers and at ours: the same scenarios hold."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from mqclient import Admin
from tests.admin_scenarios import SCENARIOS, Place
from tests.interop.clusters import OUR_CLIENTS_AT, Cluster

pytestmark = pytest.mark.parametrize("cluster", OUR_CLIENTS_AT, indirect=True)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_scenario(
    cluster: Cluster, scenario: Callable[[Place], None], request: pytest.FixtureRequest
) -> None:
    is_five = request.node.callspec.params["cluster"] == "java5_cluster"
    with Admin(cluster.namesrv, timeout=20) as admin:
        scenario(Place(admin, cluster.namesrv, cluster.broker, is_five))

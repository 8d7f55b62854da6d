"""Fixtures that run real Java RocketMQ; shared by the session, since a JVM is slow to start."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from scripts import java_rocketmq
from tests.interop.clusters import Cluster, Maker
from tests.interop.java_driver import JavaDriver

SHARING = (
    *("bench", "harness", "java_clients", "java_features", "lite_pull", "mqadmin"),
    *("mqadmin_messages", "mqadmin_operators", "mqadmin_own"),
    *("python_admin", "python_clients", "python_control", "python_orderly", "python_requests"),
    *("python_sharing", "python_transactions", "spark_rows"),
)
"""Modules whose tests share clusters."""


def pytest_itemcollected(item: pytest.Item) -> None:
    """One worker runs the modules that share clusters. The other modules start servers of their
    own and spend most of their time waiting for them.
    """
    if item.path.stem.removeprefix("test_") in SHARING:
        item.add_marker(pytest.mark.xdist_group("interop"))


@pytest.fixture(scope="session")
def java() -> None:
    """Java RocketMQ's jars and the drivers; skips with the reason if they are not available."""
    reason = java_rocketmq.missing()
    if reason is not None:
        pytest.skip(f"Java RocketMQ: {reason}")
    try:
        java_rocketmq.class_path()
    except java_rocketmq.JavaMissing as error:
        pytest.skip(f"Java RocketMQ: {error}")


def _cluster(factory: pytest.TempPathFactory, namesrv: Maker, broker: Maker) -> Iterator[Cluster]:
    running = Cluster(factory.mktemp(f"{namesrv}_{broker}"), namesrv, broker)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def java_cluster(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Java broker at a Java NameServer."""
    yield from _cluster(tmp_path_factory, "java", "java")


@pytest.fixture(scope="session")
def java5_cluster(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A broker of RocketMQ 5 at a NameServer of RocketMQ 5."""
    yield from _cluster(tmp_path_factory, "java5", "java5")


@pytest.fixture(scope="session")
def our_cluster(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Our broker at our NameServer."""
    yield from _cluster(tmp_path_factory, "ours", "ours")


@pytest.fixture(scope="session")
def our_broker_at_java(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Our broker at a Java NameServer."""
    yield from _cluster(tmp_path_factory, "java", "ours")


@pytest.fixture(scope="session")
def java_broker_at_ours(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A Java broker at our NameServer."""
    yield from _cluster(tmp_path_factory, "ours", "java")


@pytest.fixture
def cluster(request: pytest.FixtureRequest) -> Cluster:
    """The cluster that a test's parameter names."""
    running: Cluster = request.getfixturevalue(request.param)
    return running


@pytest.fixture(scope="session")
def java_driver(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDriver]:
    """Java clients that speak JSON headers."""
    driver = JavaDriver(tmp_path_factory.mktemp("java_json"), "JSON")
    yield driver
    driver.kill()


@pytest.fixture(params=["java_driver", "java_driver_binary"], ids=["JSON", "ROCKETMQ"])
def either_driver(request: pytest.FixtureRequest) -> JavaDriver:
    """Java clients, once with each header serialisation."""
    driver: JavaDriver = request.getfixturevalue(request.param)
    return driver


@pytest.fixture(scope="session")
def java_driver_binary(
    java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaDriver]:
    """Java clients that speak ROCKETMQ headers."""
    driver = JavaDriver(tmp_path_factory.mktemp("java_binary"), "ROCKETMQ")
    yield driver
    driver.kill()

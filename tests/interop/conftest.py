"""Fixtures that run real Java RocketMQ; shared by the session, since a JVM is slow to start."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts import java_rocketmq

from .java_driver import JavaDriver
from .java_servers import JavaBroker, JavaNamesrv


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is an interop test, run by one worker: JVMs are shared."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.interop)
            item.add_marker(pytest.mark.xdist_group("interop"))


@pytest.fixture(scope="session")
def java() -> None:
    """Java RocketMQ's jars and the drivers; skips, saying why, where they cannot be had."""
    reason = java_rocketmq.missing()
    if reason is not None:
        pytest.skip(f"Java RocketMQ: {reason}")
    try:
        java_rocketmq.class_path()
    except java_rocketmq.JavaMissing as error:
        pytest.skip(f"Java RocketMQ: {error}")


@pytest.fixture(scope="session")
def java_namesrv(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaNamesrv]:
    """A Java NameServer."""
    server = JavaNamesrv(tmp_path_factory.mktemp("java_namesrv"))
    yield server
    server.stop()


@pytest.fixture(scope="session")
def java_broker(
    java_namesrv: JavaNamesrv, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaBroker]:
    """A Java broker registered at the Java NameServer."""
    server = JavaBroker(tmp_path_factory.mktemp("java_broker"), java_namesrv.address)
    yield server
    server.stop()


@pytest.fixture(scope="session")
def java_driver(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[JavaDriver]:
    """Java clients that speak JSON headers."""
    driver = JavaDriver(tmp_path_factory.mktemp("java_json"), "JSON")
    yield driver
    driver.kill()


@pytest.fixture(scope="session")
def java_driver_binary(
    java: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[JavaDriver]:
    """Java clients that speak ROCKETMQ headers."""
    driver = JavaDriver(tmp_path_factory.mktemp("java_binary"), "ROCKETMQ")
    yield driver
    driver.kill()

"""The harness itself: Java clients against Java servers, so that a red test means our fault."""

from __future__ import annotations

from .java_driver import JavaDriver
from .java_servers import JavaBroker, JavaNamesrv

WALK_THROUGH_CRCS = [613185359, 1401636825, 1250039395, 1032136437, 601994070]


def test_java_to_java(
    java_namesrv: JavaNamesrv, java_broker: JavaBroker, java_driver: JavaDriver
) -> None:
    results = java_driver.produce(java_namesrv.address, "HarnessTopic", 5, keys="k")
    assert [result["status"] for result in results] == ["SEND_OK"] * 5

    consumer = java_driver.consume(java_namesrv.address, "harness_group", "HarnessTopic")
    messages = sorted(consumer.await_messages(5), key=lambda message: message["physicalOffset"])
    consumer.stop()
    assert [message["body"] for message in messages] == [f"Hello RocketMQ {i}" for i in range(5)]
    assert [message["bodyCrc"] for message in messages] == WALK_THROUGH_CRCS


def test_java_admin(
    java_namesrv: JavaNamesrv, java_broker: JavaBroker, java_driver: JavaDriver
) -> None:
    printed = java_driver.admin("clusterList", "-n", java_namesrv.address)
    assert java_broker.address in printed
    assert "V4_9_7" in printed

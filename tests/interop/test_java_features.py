"""Further features of Java clients, beyond sending and consuming, at our broker and at Java's."""

from __future__ import annotations

import pytest

from tests.interop.clusters import Cluster
from tests.interop.java_driver import Event, JavaDriver

BOTH = ["our_cluster", "java_cluster"]

pytestmark = pytest.mark.parametrize("cluster", BOTH, indirect=True)


def name(kind: str, cluster: Cluster, driver: JavaDriver) -> str:
    """A topic or group of this test's own."""
    return f"{kind}_{driver.serialize}_{cluster.broker_port}"


def test_transactions(cluster: Cluster, either_driver: JavaDriver) -> None:
    driver = either_driver
    topic = cluster.create_topic(driver, name("Tx", cluster, driver))
    commit, rollback, unknown = "COMMIT_MESSAGE", "ROLLBACK_MESSAGE", "UNKNOW"
    consumer = driver.consume(cluster.namesrv, name("tx", cluster, driver), topic)
    done = driver.call(
        "transact",
        namesrv=cluster.namesrv,
        topic=topic,
        group=name("tx_producers", cluster, driver),
        decisions=[commit, rollback, unknown, unknown],
        checks=[rollback, commit, commit, rollback],
    )
    assert [result["status"] for result in done["results"]] == ["SEND_OK"] * 4
    messages = consumer.await_messages(2)
    undecided = {"transaction 2", "transaction 3"}

    def asked() -> set[str]:
        return {check["body"] for check in driver.events(done["id"], "check")}

    # One message may be checked twice before the other is checked.
    assert driver.wait_for(lambda: asked() >= undecided, 90.0), asked()
    assert asked() == undecided
    checks = driver.events(done["id"], "check")
    assert {check["topic"] for check in checks} == {topic}
    # A check before the producer's first heartbeat finds no producer and is lost.
    assert all(int(check["times"]) >= 1 for check in checks)
    consumer.stop()
    driver.call("stop_transacting", producer=done["id"])
    assert sorted(message["body"] for message in messages) == ["transaction 0", "transaction 2"]
    assert {message["properties"]["REAL_TOPIC"] for message in messages} == {topic}
    assert {message["properties"]["TRAN_MSG"] for message in messages} == {"true"}


def test_sql_chooses(cluster: Cluster, either_driver: JavaDriver) -> None:
    driver = either_driver
    topic = cluster.create_topic(driver, name("Sql", cluster, driver))
    group = name("sql", cluster, driver)
    consumer = driver.consume(cluster.namesrv, group, topic, sql="n BETWEEN 3 AND 5 OR n > 17")
    driver.produce(cluster.namesrv, topic, 20, number="n", body="")
    bodies = {message["body"] for message in consumer.await_messages(5)}
    consumer.stop()
    assert bodies == {"3", "4", "5", "18", "19"}


def test_requests_are_answered(cluster: Cluster, either_driver: JavaDriver) -> None:
    driver = either_driver
    topic = cluster.create_topic(driver, name("Ask", cluster, driver))
    consumer = driver.consume(
        cluster.namesrv, name("answer", cluster, driver), topic, answer="answer to "
    )
    driver.produce(cluster.namesrv, topic, 1, body="are you there?")
    consumer.await_messages(1)
    for number in range(3):
        done = driver.call(
            "request", namesrv=cluster.namesrv, topic=topic, body=f"question {number}"
        )
        assert done["body"] == f"answer to question {number}"
    consumer.stop()


def test_an_orderly_consumer_sees_each_queue_in_order(
    cluster: Cluster, either_driver: JavaDriver
) -> None:
    driver = either_driver
    topic = cluster.create_topic(driver, name("Order", cluster, driver))
    consumer = driver.consume(
        cluster.namesrv, name("orderly", cluster, driver), topic, orderly=True
    )
    for queue_id in range(4):
        driver.produce(cluster.namesrv, topic, 10, body=f"{queue_id}: ", queueId=queue_id)
    messages = consumer.await_messages(40)
    consumer.stop()
    for queue_id in range(4):
        bodies = [message["body"] for message in messages if message["queueId"] == queue_id]
        assert bodies == [f"{queue_id}: {i}" for i in range(10)]


def test_a_broadcast_reaches_every_member(cluster: Cluster, either_driver: JavaDriver) -> None:
    driver = either_driver
    topic = cluster.create_topic(driver, name("All", cluster, driver))
    group = name("broadcast", cluster, driver)
    members = [driver.consume(cluster.namesrv, group, topic, broadcast=True) for _ in range(2)]
    # Members start at the end of known queues, and at the beginning of a new topic's queues.
    driver.produce(cluster.namesrv, topic, 8, body="to all ")
    expected = {f"to all {i}" for i in range(8)}
    for member in members:
        assert {message["body"] for message in member.await_messages(8)} == expected
        member.stop()


def test_a_pull_consumer_reads_to_the_end(cluster: Cluster, either_driver: JavaDriver) -> None:
    driver = either_driver
    topic = cluster.create_topic(driver, name("Pull", cluster, driver), queues=1)
    driver.produce(cluster.namesrv, topic, 6, body="pulled ")
    driver.produce(cluster.namesrv, topic, 2, tags="TagB", body="other ")
    cluster.await_stored(topic, 8)
    group = name("pull", cluster, driver)
    done = driver.call("pull", namesrv=cluster.namesrv, topic=topic, group=group, tags="TagA")
    assert sorted(done["bodies"]) == [f"pulled {i}" for i in range(6)]
    assert done["statuses"] == ["NO_NEW_MSG", "OFFSET_ILLEGAL"]
    assert [done[f"{what} 0"] for what in ("kept", "ends", "first by time")] == [8, 8, 0]


@pytest.mark.parametrize("assigned", [False, True], ids=["subscribed", "assigned"])
def test_a_lite_pull_consumer_polls(
    cluster: Cluster, either_driver: JavaDriver, assigned: bool
) -> None:
    driver = either_driver
    topic = cluster.create_topic(driver, name(f"Lite{assigned}", cluster, driver))
    driver.produce(cluster.namesrv, topic, 12, body="polled ")
    done = driver.call(
        "lite_pull",
        namesrv=cluster.namesrv,
        topic=topic,
        group=name(f"lite_{assigned}", cluster, driver),
        tags="*",
        count=12,
        assigned=assigned,
    )
    assert sorted(done["bodies"]) == sorted(f"polled {i}" for i in range(12))
    assert done["committed"] == 12


def test_what_became_of_a_message_is_traced(cluster: Cluster, either_driver: JavaDriver) -> None:
    driver = either_driver
    topic = cluster.create_topic(driver, name("Traced", cluster, driver), queues=1)
    traces = cluster.create_topic(driver, name("Traces", cluster, driver), queues=1)
    group = name("traced", cluster, driver)
    (sent,) = driver.produce(cluster.namesrv, topic, 1, trace=traces)
    consumer = driver.consume(cluster.namesrv, group, topic, trace=traces)
    consumer.await_messages(1)
    reader = driver.consume(cluster.namesrv, name("traces", cluster, driver), traces)
    kinds = ("Pub", "SubBefore", "SubAfter")
    assert driver.wait_for(lambda: set(kinds) <= set(told(reader.messages, sent["msgId"])), 90)
    consumer.stop()
    reader.stop()


def told(messages: list[Event], message_id: str) -> list[str]:
    """The kinds of the trace records about a message: \x02 ends one, \x01 its fields."""
    records = [record for message in messages for record in message["body"].split("\x02")]
    return [record.split("\x01")[0] for record in records if message_id in record]

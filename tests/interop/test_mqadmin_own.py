"""The commands that RocketMQ lacks, at a Java broker and at ours, with Java's consumers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.interop.clusters import Cluster
from tests.interop.java_driver import JavaDriver
from tests.interop.java_mqadmin import run_ours
from tests.waiting import until

CLUSTERS = ["java_cluster", "our_cluster"]


def rows(cluster: Cluster, *words: str) -> list[dict[str, Any]]:
    """What a command prints as JSON."""
    found: list[dict[str, Any]] = json.loads(run_ours(*words, "-n", cluster.namesrv, form="json"))
    return found


@pytest.mark.parametrize("cluster", CLUSTERS, indirect=True)
def test_dead_letters_of_a_java_consumer_come_again(
    cluster: Cluster, java_driver: JavaDriver
) -> None:
    topic, group = "RedriveTopic", "redrive_group"
    cluster.create_topic(java_driver, topic)
    cluster.create_topic(java_driver, f"%RETRY%{group}", queues=1)
    java_driver.produce(cluster.namesrv, topic, 3)
    failing = java_driver.consume(cluster.namesrv, group, topic, failures=1, delayLevel=-1)
    failing.await_messages(3)
    cluster.await_route(java_driver, f"%DLQ%{group}")
    cluster.await_stored(f"%DLQ%{group}", 3)
    failing.stop()
    peeked = rows(cluster, "dlq", "peek", "-g", group)
    assert [row["originTopic"] for row in peeked] == [topic] * 3
    consumer = java_driver.consume(cluster.namesrv, group, topic)
    sent = rows(cluster, "dlq", "redrive", "-g", group, "--yes")
    assert {row["body"] for row in sent} == {f"Hello RocketMQ {number}" for number in range(3)}
    redriven = consumer.await_messages(3)
    assert {message["topic"] for message in redriven} == {topic}
    assert {message["reconsumeTimes"] for message in redriven} == {0}
    consumer.stop()
    (state,) = [row for row in rows(cluster, "dlq", "list") if row["group"] == group]
    assert (state["messages"], state["waiting"]) == (3, 0)
    (purged,) = rows(cluster, "dlq", "purge", "-g", group, "--yes")
    assert purged["brokerAddrs"] == [cluster.broker]


@pytest.mark.parametrize("cluster", CLUSTERS, indirect=True)
def test_offsets_go_where_a_plan_says(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic, group = "PlanTopic", "plan_group"
    cluster.create_topic(java_driver, topic, queues=1)
    cluster.create_topic(java_driver, f"%RETRY%{group}", queues=1)
    java_driver.produce(cluster.namesrv, topic, 10)
    cluster.await_stored(topic, 10)
    consumer = java_driver.consume(cluster.namesrv, group, topic)
    consumer.await_messages(10)
    consumer.stop()
    where = ("-g", group, "-t", topic)

    def committed() -> list[dict[str, Any]]:
        return rows(cluster, "offsets", "export", *where)

    assert until(lambda: [row["offset"] for row in committed()] == [10])
    for target, after in (("earliest", 0), ("shift-by:3", 3), ("offset:5", 5), ("latest", 10)):
        words = ("offsets", "reset", *where, "--to", target)
        (planned,) = rows(cluster, *words, "--dry-run")
        assert planned["after"] == after
        assert rows(cluster, *words, "--yes") == [planned]
        assert [row["offset"] for row in committed()] == [after]
    rows(cluster, "offsets", "reset", *where, "--to", "offset:4", "--yes")
    (lag,) = rows(cluster, "lag", *where)
    assert (lag["lag"], lag["consumerOffset"]) == (6, 4)
    assert lag["lagMs"] > 0
    again = java_driver.consume(cluster.namesrv, group, topic)
    assert len(again.await_messages(6)) == 6, "the group continues at its offset"
    (moved,) = rows(cluster, "offsets", "reset", *where, "--to", "earliest", "--yes")
    assert moved["after"] == 0
    again.await_messages(16)
    again.stop()


@pytest.mark.parametrize("cluster", CLUSTERS, indirect=True)
def test_messages_of_a_java_producer_are_found_and_copied(
    cluster: Cluster, java_driver: JavaDriver, tmp_path: Path
) -> None:
    topic, copy = "SearchTopic", "SearchCopy"
    for name in (topic, copy):
        cluster.create_topic(java_driver, name, queues=2)
    java_driver.produce(cluster.namesrv, topic, 10)
    cluster.await_stored(topic, 10)
    stored = rows(cluster, "messages", "find", "-t", topic)
    (seventh,) = rows(cluster, "messages", "find", "-t", topic, "--body", "RocketMQ 7")
    assert seventh["body"] == "Hello RocketMQ 7"
    begin = seventh["storeTimestamp"]
    later = rows(cluster, "messages", "find", "-t", topic, "-b", str(begin))
    assert later == [row for row in stored if row["storeTimestamp"] >= begin]
    file = tmp_path / "messages.jsonl"
    export = ("messages", "export", "-t", topic, "-n", cluster.namesrv)
    file.write_text(run_ours(*export, form="jsonl"))
    rows(cluster, "messages", "import", "-f", str(file), "-t", copy, "--yes")
    cluster.await_stored(copy, 10)
    same = ("msgId", "tags", "keys", "bornTimestamp", "body")
    copies = rows(cluster, "messages", "find", "-t", copy)
    assert sorted([row[name] for name in same] for row in copies) == sorted(
        [row[name] for name in same] for row in stored
    )

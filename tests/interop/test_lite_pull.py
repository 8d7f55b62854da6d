"""Our lite pull consumer at Java's broker and ours, beside Java's clients."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from mqclient import LitePullConsumer, Message, Producer, aio
from tests.interop.clusters import OUR_CLIENTS_AT, Cluster
from tests.interop.java_driver import JavaDriver
from tests.waiting import until

pytestmark = pytest.mark.parametrize("cluster", OUR_CLIENTS_AT, indirect=True)
EARLIEST = {"consume_from": "earliest"}


async def test_java_sends_and_mqadmin_sees_the_commits(
    cluster: Cluster, java_driver: JavaDriver
) -> None:
    topic = cluster.create_topic(java_driver, f"LiteFromJava_{cluster.broker_port}", queues=1)
    java_driver.produce(cluster.namesrv, topic, 5)
    group = f"lite_from_java_{cluster.broker_port}"
    seen = []
    async with aio.LitePullConsumer(group, cluster.namesrv, **EARLIEST) as consumer:
        consumer.subscribe(topic, "TagA")
        async with asyncio.timeout(90):
            async for message in consumer:
                seen.append(message.body.decode())
                if len(seen) == 5:
                    break
        (queue,) = consumer.assignment()
        await consumer.commit()
        assert await consumer.committed(queue) == 5, "with the one in hand"
        words = ("consumerProgress", "-n", cluster.namesrv, "-g", group)
        printed = await asyncio.to_thread(java_driver.admin, *words)
    assert seen == [f"Hello RocketMQ {i}" for i in range(5)]
    (row,) = [line.split() for line in printed.splitlines() if line.startswith(topic[:20])]
    assert row[3:5] == ["5", "5"], printed
    assert "Diff Total: 0" in printed, printed


def test_a_java_lite_pull_consumer_in_the_same_group(
    cluster: Cluster, java_driver: JavaDriver
) -> None:
    topic = cluster.create_topic(java_driver, f"LiteShared_{cluster.broker_port}")
    group = f"lite_shared_{cluster.broker_port}"
    with (
        LitePullConsumer(group, cluster.namesrv, **EARLIEST) as consumer,
        Producer(cluster.namesrv) as producer,
        ThreadPoolExecutor(1) as pool,
    ):
        consumer.subscribe(topic)
        assert len(consumer.wait_assigned(90)) == 4
        fields = {"namesrv": cluster.namesrv, "group": group, "topic": topic, "tags": "*"}
        java = pool.submit(java_driver.call, "lite_pull", count=2, **fields)
        assert until(lambda: len(consumer.assignment()) == 2), "Java did not take its share"
        for queue in producer.queues(topic):
            producer.send(Message(topic, b"%d" % queue.queue_id), queue=queue)
        ours = {next(iter(consumer)).body.decode() for _ in range(2)}
        theirs = set(java.result(90)["bodies"])
        assert ours | theirs == {"0", "1", "2", "3"}
        assert not ours & theirs
        assert until(lambda: len(consumer.assignment()) == 4), "Java's queues did not come back"


def test_two_of_ours_share_seek_and_pause(cluster: Cluster, java_driver: JavaDriver) -> None:
    topic = cluster.create_topic(java_driver, f"LiteTwo_{cluster.broker_port}", queues=2)
    group = f"lite_two_{cluster.broker_port}"
    with LitePullConsumer(group, cluster.namesrv, **EARLIEST) as first:
        first.subscribe(topic)
        assert len(first.wait_assigned(90)) == 2
        with LitePullConsumer(group, cluster.namesrv, **EARLIEST) as second:
            second.subscribe(topic)
            assert len(second.wait_assigned(90)) == 1
            assert until(lambda: len(first.assignment()) == 1)
        assert until(lambda: len(first.assignment()) == 2)
        java_driver.produce(cluster.namesrv, topic, 2)
        assert sorted(next(iter(first)).body for _ in range(2)) == [
            b"Hello RocketMQ 0",
            b"Hello RocketMQ 1",
        ]
        for queue in first.assignment():
            first.seek_to_begin(queue)
        first.pause()
        assert first.poll(9, timeout=0.2) == []
        first.resume()
        again = []
        while len(again) < 2:
            again += first.poll(9)
        assert len(again) == 2

"""When a queue restarts at a low offset, the consumer reads and commits from there."""

import asyncio

import pytest

from mqclient.aio import LitePullConsumer
from mqclient.consumer.lite import puller
from tests.client.cluster import NAMESRV, Cluster
from tests.client.reading import Q0, Seen, reading
from tests.waiting import until_async


def lite(cluster: Cluster, **options) -> LitePullConsumer:
    options = {"consume_from": "earliest", "commit_interval": 0.01, **options}
    consumer = LitePullConsumer("g", NAMESRV, transport=cluster.transport, **options)
    consumer.assign([Q0])
    return consumer


def make_anew(cluster: Cluster) -> None:
    """The topic is deleted and made again."""
    cluster.stored[Q0].clear()
    cluster.arrived.set()


@pytest.mark.parametrize("model", ["clustering", "broadcasting"])
async def test_a_push_consumer_reads_and_commits_a_topic_made_anew(model):
    cluster, seen = Cluster(T=1), Seen()
    cluster.put("T", *(b"%d" % n for n in range(6)))
    options = {"model": model, "commit_interval": 0.01, "consume_from": "earliest"}
    async with reading(cluster, seen, **options) as consumer:
        await seen.until(6)
        make_anew(cluster)
        await until_async(lambda: consumer._offsets.get(Q0) == 0)
        cluster.put("T", b"new")
        assert (await seen.until(7))[6] == b"new"
    assert cluster.committed.get(Q0, 1) == 1


@pytest.mark.parametrize("by_hand", [False, True])
async def test_a_lite_consumer_reads_and_commits_a_topic_made_anew(monkeypatch, by_hand):
    monkeypatch.setattr(puller, "ERROR_DELAY", 0.01)
    cluster = Cluster(T=1)
    cluster.put("T", *(b"%d" % n for n in range(6)))
    async with lite(cluster, commit_interval=None if by_hand else 0.05) as consumer:
        old = await consumer.poll(32, 60)
        if by_hand:
            await consumer.commit(old)
        assert not await consumer.poll(1, 0.01)
        await until_async(lambda: by_hand or cluster.committed.get(Q0) == 6)
        make_anew(cluster)
        await until_async(lambda: consumer._assignment.held[Q0].next_offset == 0)
        assert await consumer.position(Q0) == 0
        cluster.put("T", b"new")
        (message,) = await consumer.poll(1, 60)
        if by_hand:
            await consumer.commit(old[1:])  # offsets of the topic that was deleted
            assert cluster.committed[Q0] == 0
            await consumer.commit(message)
    assert cluster.committed[Q0] == int(by_hand)


async def test_held_messages_do_not_mix_with_a_recreated_topics(monkeypatch):
    monkeypatch.setattr(puller, "ERROR_DELAY", 0.01)
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1")
    async with lite(cluster) as consumer:
        assert len(await consumer.poll(1, 60)) == 1
        make_anew(cluster)
        assert [m.body for m in await consumer.poll(1, 60)] == [b"1"]
        assert await consumer.position(Q0) == 1
        polling = asyncio.create_task(consumer.poll(1, 60))
        await until_async(lambda: consumer._assignment.held[Q0].next_offset == 0)
        cluster.put("T", b"new")
        assert [m.body for m in await polling] == [b"new"]
        assert await consumer.position(Q0) == 0
        assert not await consumer.poll(1, 0.01)
        await until_async(lambda: cluster.committed.get(Q0) == 1)


@pytest.mark.parametrize("ask", ["poll", "next"])
async def test_a_commit_of_older_messages_does_not_pass_a_seek(ask):
    cluster = Cluster(T=1)
    cluster.put("T", *(b"%d" % n for n in range(10)))

    async def next_one(consumer):
        if ask == "poll":
            return (await consumer.poll(1, 60))[0]
        return await anext(consumer)

    async with lite(cluster, commit_interval=None) as consumer:
        old = [await next_one(consumer) for _ in range(8)]
        await consumer.seek(Q0, 2)
        await consumer.commit(old)
        assert cluster.committed[Q0] == 2
        new = [await next_one(consumer) for _ in range(3)]
        assert [message.queue_offset for message in new] == [2, 3, 4]
        await consumer.commit(old[7])
        assert cluster.committed[Q0] == 4  # the position is 4, because message 4 is in hand
        await consumer.commit(new[2])
        assert cluster.committed[Q0] == 5


async def test_a_commit_of_an_offset_stays_until_the_position_moves():
    cluster = Cluster(T=1)
    cluster.put("T", *(b"%d" % n for n in range(4)))
    for polls, committed in ((0, 3), (2, 1)):
        async with lite(cluster, commit_interval=60) as consumer:
            await consumer.seek(Q0, 0)
            await consumer.commit({Q0: 3})
            for _ in range(polls):
                await consumer.poll(1, 60)
        assert cluster.committed[Q0] == committed


async def test_a_commit_after_reassignment_skips_no_later_message():
    cluster = Cluster(T=1)
    cluster.put("T", *(b"%d" % n for n in range(4)))
    async with lite(cluster, commit_interval=None) as consumer:
        old = await consumer.poll(32, 60)
        consumer.assign([])
        await until_async(lambda: not consumer.assignment())
        consumer.assign([Q0])
        await consumer.wait_assigned(60)
        await consumer.commit(old)
        assert cluster.committed[Q0] == 0
        again = await asyncio.wait_for(consumer.poll(2, 60), 60)
        await consumer.commit(again)
        assert cluster.committed[Q0] == 2

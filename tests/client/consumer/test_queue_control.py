"""Subscription, assignment, pause, seek and positions of push and lite pull consumers."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest

import mqclient
from mqclient import Connection, SqlFilter, aio
from mqcommon.message import MessageQueue
from mqcommon.wire import RequestCode
from tests.client.cluster import NAME, NAMESRV, Cluster
from tests.client.reading import Q0, reading
from tests.waiting import until, until_async

Q1 = MessageQueue("T", NAME, 1)
OTHER = MessageQueue("T", NAME, 7)
ORDERLY = pytest.mark.parametrize("orderly", [False, True], ids=["concurrent", "orderly"])


class Gate:
    """A handler that waits for `open` at chosen bodies; notes what it was called with."""

    def __init__(self, *stops: bytes) -> None:
        self.bodies: list[bytes] = []
        self.ended: list[bytes] = []
        self._stops = set(stops)
        self.open = asyncio.Event()

    async def __call__(self, messages, _context):
        (message,) = messages
        self.bodies.append(message.body)
        if message.body in self._stops:
            await self.open.wait()
        self.ended.append(message.body)


def options(orderly: bool, **more):
    return {"orderly": orderly, "threads": 1, "consume_from": "earliest", **more}


@asynccontextmanager
async def lite(cluster: Cluster, **more):
    made = {"consume_from": "earliest", **more}
    async with aio.LitePullConsumer("g", NAMESRV, transport=cluster.transport, **made) as consumer:
        consumer.subscribe("T")
        await consumer.wait_assigned(60)
        yield consumer


@ORDERLY
async def test_a_push_consumer_says_what_it_reads(orderly):
    cluster = Cluster(T=2, U=1)
    async with reading(cluster, Gate(), "A || B", orderly=orderly) as consumer:
        consumer.subscribe("U", "*", Gate())
        assert consumer.subscription() == {"T": "A || B", "U": "*"}
        assert consumer.assignment() == [Q0, Q1]
        assert consumer.paused() == []
        with pytest.raises(ValueError, match=r"is not assigned to this consumer \(its queues: "):
            consumer.pause([Q0, OTHER])
        assert consumer.paused() == [], "nothing happens if one of the queues is wrong"


def test_a_filter_is_told_as_it_was_given():
    consumer = aio.LitePullConsumer("g", NAMESRV)
    consumer.subscribe("T", SqlFilter("a > 5"))
    assert consumer.subscription() == {"T": SqlFilter("a > 5")}


async def test_a_lite_consumer_says_what_it_reads():
    async with lite(Cluster(T=2)) as consumer:
        assert consumer.subscription() == {"T": "*"}
        consumer.pause([Q1])
        assert consumer.paused() == [Q1]
    cluster = Cluster(T=2)
    async with aio.LitePullConsumer(None, NAMESRV, transport=cluster.transport) as consumer:
        consumer.assign([Q1])
        await consumer.wait_assigned(60)
        assert consumer.subscription() == {}
        assert consumer.assignment() == [Q1]


@ORDERLY
async def test_a_paused_queue_waits_and_the_others_go_on(orderly):
    cluster = Cluster(T=2)
    cluster.put("T", b"a0", b"a1", b"a2")
    handle = Gate(b"a0")
    async with reading(cluster, handle, **options(orderly)) as consumer:
        await until_async(lambda: handle.bodies == [b"a0"])
        consumer.pause([Q0])
        handle.open.set()
        cluster.put("T", b"b0", queue_id=1)
        await until_async(lambda: sorted(handle.ended) == [b"a0", b"b0"])
        pulls = [r.fields["queueId"] for r in cluster.requests(RequestCode.PULL_MESSAGE)]
        cluster.put("T", b"b1", queue_id=1)
        await until_async(lambda: b"b1" in handle.ended)
        assert b"a1" not in handle.bodies, "it was held when the queue was paused"
        assert consumer.paused() == [Q0]
        assert await consumer.position(Q0) == 1
        consumer.resume([Q0])
        await until_async(lambda: handle.ended[-2:] == [b"a1", b"a2"])
        assert consumer.paused() == []
    assert pulls.count("0") <= 2


@ORDERLY
async def test_pause_of_all_holds_for_queues_that_come_later(orderly):
    cluster = Cluster(T=1)
    handle = Gate()
    made = options(
        orderly, rebalance_interval=0.02, connection=Connection(route_poll_interval=0.02)
    )
    async with reading(cluster, handle, **made) as consumer:
        consumer.pause()
        cluster.topics["T"] = 2
        cluster.put("T", b"b0", queue_id=1)
        await until_async(lambda: len(consumer.assignment()) == 2)
        assert consumer.paused() == [Q0, Q1]
        consumer.resume([Q1])
        await until_async(lambda: handle.ended == [b"b0"])
        assert consumer.paused() == [Q0]
        consumer.resume()
        assert consumer.paused() == []


@ORDERLY
async def test_a_seek_drops_what_is_held_and_commits_its_offset(orderly):
    cluster = Cluster(T=1)
    cluster.put("T", *(b"%d" % n for n in range(6)))
    handle = Gate(b"1")
    async with reading(cluster, handle, **options(orderly)) as consumer:
        await until_async(lambda: handle.bodies == [b"0", b"1"])
        await consumer.seek(Q0, 4)
        assert await consumer.position(Q0) == 4
        if orderly:
            await consumer.seek(Q0, 5)  # its line waits for the running batch as well
        assert handle.bodies == [b"0", b"1"], "the running call has the only thread"
        handle.open.set()
        await until_async(lambda: handle.ended[-1:] == [b"5"])
    assert handle.bodies == [b"0", b"1", *([b"5"] if orderly else [b"4", b"5"])]
    assert cluster.committed[Q0] == 6
    assert not cluster.given_back


@ORDERLY
async def test_a_seek_back_counts_more_than_the_running_call(orderly):
    cluster = Cluster(T=1)
    cluster.put("T", *(b"%d" % n for n in range(3)))
    handle = Gate(b"2")
    async with reading(cluster, handle, **options(orderly)) as consumer:
        await until_async(lambda: handle.bodies[-1:] == [b"2"])
        consumer.pause()
        await consumer.seek(Q0, 1)
        handle.open.set()
        await until_async(lambda: handle.ended[-1:] == [b"2"])
        assert await consumer.position(Q0) == 1
        assert consumer.paused() == [Q0], "a seek does not resume the queue"
    assert cluster.committed[Q0] == 1


async def test_a_seek_inside_an_orderly_handler_takes_effect_after_it():
    cluster = Cluster(T=1)
    bodies: list[bytes] = []

    async def handle(messages, _context):
        bodies.append(messages[0].body)
        if messages[0].body == b"1":
            await consumer.seek(Q0, 4)
            await asyncio.sleep(0)
            assert bodies == [b"0", b"1"], "one batch of a queue at a time"

    async with reading(cluster, handle, **options(True)) as consumer:
        cluster.put("T", *(b"%d" % n for n in range(5)))
        await until_async(lambda: bodies == [b"0", b"1", b"4"])
    assert cluster.committed[Q0] == 5


async def test_a_broadcasting_consumer_seeks_and_keeps_its_offset(tmp_path):
    cluster = Cluster(T=1)
    cluster.put("T", *(b"%d" % n for n in range(3)))
    made = options(False, model="broadcasting", offset_store=tmp_path / "offsets.json")
    handle = Gate()
    async with reading(cluster, handle, **made) as consumer:
        await until_async(lambda: len(handle.ended) == 3)
        consumer.pause()
        await consumer.seek(Q0, 1)
    again = Gate()
    async with reading(cluster, again, **made) as consumer:
        assert await consumer.committed(Q0) == 1
        await until_async(lambda: again.ended == [b"1", b"2"])
    assert not cluster.committed, "brokers keep no offsets of it"


async def test_a_seek_to_the_position_undoes_a_commit_by_hand():
    cluster = Cluster(T=1)
    cluster.put("T", b"0", b"1", b"2")
    async with lite(cluster) as consumer:
        await consumer.commit({Q0: 3})
        assert cluster.committed == {Q0: 3}
        await consumer.seek(Q0, 0)
    assert cluster.committed == {Q0: 0}


async def test_a_timeout_given_as_a_count_is_explained():
    async with lite(Cluster(T=1)) as consumer:
        with pytest.raises(TypeError, match=r"must be int, not float; poll\(timeout=1\.5\)\?"):
            await consumer.poll(1.5)


async def test_a_wrong_seek_of_a_push_consumer_is_refused():
    cluster = Cluster(T=1)
    async with reading(cluster, Gate()) as consumer:
        with pytest.raises(ValueError, match="has no offset 9: it holds 0 to 0; seek there"):
            await consumer.seek(Q0, 9)
        with pytest.raises(TypeError, match="seek takes an offset or a datetime, not str"):
            await consumer.seek(Q0, "0")
        with pytest.raises(ValueError, match="is not assigned"):
            await consumer.position(OTHER)


@pytest.mark.parametrize("kind", ["push", "orderly", "lite"])
def test_both_faces_control_queues_alike(mq, kind):
    """Against a real broker: pause, seek by offset and time, positions, offsets and lag."""
    topic, group = mq.topic(queues=1), f"g_control_{kind}"
    queue = MessageQueue(topic, "broker-a", 0)
    before = datetime.now(UTC) - timedelta(seconds=1)
    with mqclient.Producer(mq.namesrv) as producer:
        producer.send([mqclient.Message(topic, b"%d" % n) for n in range(5)])
    seen: list[bytes] = []
    made = {"consume_from": "earliest"}
    if kind == "lite":
        consumer = mqclient.LitePullConsumer(group, mq.namesrv, **made)
        consumer.subscribe(topic)
    else:
        consumer = mqclient.PushConsumer(group, mq.namesrv, orderly=kind == "orderly", **made)
        consumer.on_message(topic)(lambda message: seen.append(message.body))

    def read(*expected: bytes) -> None:
        if kind == "lite":
            while len(seen) < len(expected):
                seen.extend(message.body for message in consumer.poll(timeout=60))
            consumer.commit(consumer.poll(1, timeout=0.01))
        assert until(lambda: sorted(seen) == sorted(expected)), seen
        seen.clear()

    with consumer:
        consumer.wait_assigned(60)
        read(*(b"%d" % n for n in range(5)))
        assert until(lambda: consumer.position(queue) == 5)
        consumer.pause([queue])
        assert consumer.paused() == [queue]
        consumer.seek(queue, 3)
        assert consumer.position(queue) == 3
        assert consumer.lag()[queue].messages == 2
        consumer.resume([queue])
        read(b"3", b"4")
        consumer.seek(queue, before)
        read(*(b"%d" % n for n in range(5)))
        consumer.seek_to_end(queue)
        assert consumer.position(queue) == 5
        assert consumer.lag()[queue] == mqclient.Lag(5, 5, 0, 0.0)
        assert consumer.beginning_offsets() == {queue: 0}
        assert consumer.end_offsets([queue]) == {queue: 5}
        consumer.seek_to_begin(queue)

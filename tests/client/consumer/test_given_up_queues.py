"""After a consumer loses a queue, a running handler finishes and no later handler starts."""

import asyncio
import threading
from contextlib import asynccontextmanager

import pytest

from mqclient.aio import LitePullConsumer
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.bodies.offsets import ResetOffsetBody
from tests.client.cluster import BROKER, NAME, NAMESRV, Cluster
from tests.client.reading import Q0, RETRY, reading
from tests.waiting import until_async

OPTIONS = {"consume_from": "earliest", "threads": 1, "rebalance_interval": 0.05}
R0 = MessageQueue(RETRY, NAME, 0)
MODELS = ["clustering", "broadcasting"]


class Blocking:
    """Handlers of one thread that wait for `go_on`; `end` returns after all earlier calls."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.go_on = threading.Event()
        self.ended = threading.Event()

    def handle(self, messages, _context) -> None:
        self.bodies += [message.body for message in messages]
        assert self.go_on.wait(60)

    def end(self, _messages, _context) -> None:
        self.ended.set()


def cluster_of_ten() -> Cluster:
    cluster = Cluster(T=1, END=1)
    cluster.put("T", *(b"%d" % number for number in range(10)))
    cluster.put("END", b"end")
    return cluster


async def finish(consumer, calls: Blocking) -> None:
    """Let the running handler end, and wait for calls that were queued after it."""
    consumer.subscribe("END", "*", calls.end)
    calls.go_on.set()
    await until_async(calls.ended.is_set)


@pytest.mark.parametrize("model", MODELS)
async def test_no_handler_starts_after_unsubscribe(model):
    cluster, calls = cluster_of_ten(), Blocking()
    async with reading(cluster, calls.handle, model=model, **OPTIONS) as consumer:
        await until_async(lambda: calls.bodies)
        consumer.unsubscribe("T")
        await finish(consumer, calls)
    assert calls.bodies == [b"0"]


@asynccontextmanager
async def retries_that_wait(calls: Blocking, **options):
    """A consumer whose only thread has a message of T, while two retries of T wait for it."""
    cluster = Cluster(**{"T": 1, RETRY: 1, "END": 1})
    cluster.put("T", b"0")
    cluster.put("END", b"end")
    async with reading(cluster, calls.handle, **OPTIONS, **options) as consumer:
        await until_async(lambda: calls.bodies)
        cluster.put(RETRY, b"1", b"2", RETRY_TOPIC="T")
        await until_async(lambda: pulled_all(cluster, RETRY, "2"))
        yield cluster, consumer


def pulled_all(cluster: Cluster, topic: str, end: str) -> bool:
    pulls = [frame.fields for frame in cluster.requests(RequestCode.PULL_MESSAGE)]
    return any(one["topic"] == topic and one["queueOffset"] == end for one in pulls)


async def test_waiting_retries_are_sent_back_after_unsubscribe():
    calls = Blocking()
    async with retries_that_wait(calls, commit_interval=0.01) as (cluster, consumer):
        consumer.unsubscribe("T")
        await finish(consumer, calls)
        await until_async(lambda: cluster.committed.get(R0) == 2)
    assert calls.bodies == [b"0"]
    assert [fields["offset"] for fields in cluster.given_back] == ["0", "1000"]


async def test_orderly_retries_stay_uncommitted_after_unsubscribe():
    calls = Blocking()
    async with retries_that_wait(calls, orderly=True) as (cluster, consumer):
        consumer.unsubscribe("T")
        await finish(consumer, calls)
    assert calls.bodies == [b"0"]
    assert cluster.committed.get(R0, 0) == 0


async def test_no_handler_starts_after_another_member_got_the_queue():
    cluster, calls = cluster_of_ten(), Blocking()
    async with reading(cluster, calls.handle, **OPTIONS) as consumer:
        await until_async(lambda: calls.bodies)
        cluster.members.append("0")  # this id sorts first and gets the only queue
        await until_async(lambda: not consumer.assignment())
        cluster.members.remove("0")
        consumer.unsubscribe("T")
        await finish(consumer, calls)
    assert calls.bodies == [b"0"]


@pytest.mark.parametrize("model", MODELS)
async def test_only_the_running_call_ends_after_a_reset(model):
    cluster, calls = cluster_of_ten(), Blocking()
    async with reading(cluster, calls.handle, model=model, **OPTIONS) as consumer:
        await until_async(lambda: calls.bodies)
        fields = {"topic": "T", "group": "g", "timestamp": "0", "isForce": "true"}
        reset = Frame(220, fields, ResetOffsetBody({Q0: 8}).to_json(), flag=2)
        await cluster.transport.push(BROKER, reset)
        await until_async(lambda: "8" in pulled_offsets(cluster))
        await finish(consumer, calls)
    assert calls.bodies == [b"0", b"8", b"9"]


def pulled_offsets(cluster: Cluster) -> list[str]:
    pulls = cluster.requests(RequestCode.PULL_MESSAGE)
    return [frame.fields["queueOffset"] for frame in pulls if frame.fields["topic"] == "T"]


@pytest.mark.parametrize("orderly", [False, True])
async def test_close_ends_only_the_running_call(orderly):
    cluster, calls = cluster_of_ten(), Blocking()
    async with reading(cluster, calls.handle, orderly=orderly, **OPTIONS) as consumer:
        await until_async(lambda: calls.bodies)
        closing = asyncio.create_task(consumer.close())
        for _ in range(3):  # until the close has begun
            await asyncio.sleep(0)
        calls.go_on.set()
        await closing
    assert calls.bodies == [b"0"]
    assert cluster.committed[Q0] == 1


async def test_a_waiting_orderly_batch_is_dropped_at_once():
    cluster, calls = Cluster(T=2), Blocking()
    cluster.put("T", b"0", queue_id=0)
    cluster.put("T", b"0", queue_id=1)
    async with reading(cluster, calls.handle, orderly=True, **OPTIONS) as consumer:
        await until_async(lambda: calls.bodies)
        await until_async(lambda: {"1"} <= set(pulled_offsets(cluster)))
        consumer.unsubscribe("T")
        unlocked = cluster.requests
        await until_async(lambda: unlocked(RequestCode.UNLOCK_BATCH_MQ))
        assert not calls.go_on.is_set()
        calls.go_on.set()
        await until_async(lambda: len(unlocked(RequestCode.UNLOCK_BATCH_MQ)) == 2)
    assert calls.bodies == [b"0"]


async def test_a_resubscribed_topic_is_read_from_its_commit():
    cluster, calls = cluster_of_ten(), Blocking()
    async with reading(cluster, calls.handle, **OPTIONS) as consumer:
        await until_async(lambda: calls.bodies)
        consumer.unsubscribe("T")
        consumer.subscribe("T", "*", calls.handle)
        calls.go_on.set()
        await until_async(lambda: len(calls.bodies) == 11)
        await until_async(lambda: len(consumer.assignment()) == 1)
    assert calls.bodies == [b"0", *(b"%d" % number for number in range(10))]
    assert cluster.committed[Q0] == 10


async def test_a_copy_of_a_given_up_message_is_not_sent_back():
    cluster, sent = Cluster(T=1), asyncio.Event()
    cluster.put("T", b"0", b"1")
    started = asyncio.Event()

    async def send_back(_address, request):
        cluster.given_back.append(request.fields)
        started.set()
        await sent.wait()
        return Frame(0)

    cluster.transport.scripts[int(RequestCode.CONSUMER_SEND_MSG_BACK)] = send_back

    async def fail(_messages, _context):
        raise RuntimeError

    options = {**OPTIONS, "batch_size": 2}
    async with reading(cluster, fail, **options) as consumer:
        await asyncio.wait_for(started.wait(), 60)
        consumer.unsubscribe("T")
        sent.set()
        await until_async(lambda: not consumer.assignment())
    assert [fields["offset"] for fields in cluster.given_back] == ["0"]


def lite(cluster: Cluster) -> LitePullConsumer:
    return LitePullConsumer("g", NAMESRV, transport=cluster.transport, consume_from="earliest")


def hang_at_heartbeats(cluster: Cluster) -> None:
    """A slow answer of the broker delays the next rebalance."""

    async def hang(_address, _request):
        await asyncio.sleep(1)
        return Frame(0)

    cluster.transport.scripts[int(RequestCode.HEART_BEAT)] = hang


async def test_poll_returns_nothing_of_a_topic_after_unsubscribe():
    cluster = cluster_of_ten()
    consumer = lite(cluster)
    consumer.subscribe("T")
    async with consumer:
        assert await consumer.poll(1, 60)
        hang_at_heartbeats(cluster)
        consumer.unsubscribe("T")
        assert not await consumer.poll(32, 0.01)
    assert cluster.committed.get(Q0, 0) == 0


async def test_poll_returns_nothing_from_a_queue_no_longer_assigned():
    cluster = cluster_of_ten()
    consumer = lite(cluster)
    consumer.assign([Q0])
    async with consumer:
        assert await consumer.poll(1, 60)
        hang_at_heartbeats(cluster)
        consumer.assign([])
        assert not await consumer.poll(32, 0.01)

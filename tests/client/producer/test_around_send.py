"""Limits on requests in flight, avoided brokers, and messages with a delivery time."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta

import pytest

from mqclient import (
    BackPressureTimeout,
    ClientTimeout,
    Message,
    Producer,
    RocketMQError,
    SendLimits,
    TransactionProducer,
    aio,
)
from mqclient.producer.latency_fault import LatencyFaults
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from mqcommon.wire.codes import VERSION_5_0_0
from tests.client.cluster import NAMESRV, Cluster
from tests.client.producer.gate import Gate


def test_bad_limits() -> None:
    with pytest.raises(ValueError, match="max_messages must be 1 to"):
        Producer("h:1", limits=SendLimits(max_messages=0))


# --- limits


async def test_sends_wait_for_room_in_their_order() -> None:
    cluster = Cluster(T=1)
    gate = Gate(cluster)
    async with aio.Producer(
        NAMESRV, transport=cluster.transport, limits=SendLimits(max_messages=2)
    ) as sender:
        sends = [asyncio.create_task(sender.send(Message("T", b"%d" % i))) for i in range(5)]
        await gate.wait_for(2)
        with pytest.raises(BackPressureTimeout, match="nothing was sent: 2 messages with 2 bytes"):
            await sender.send(Message("T", b"late"), timeout=0.01)
        assert gate.asked == 2
        sends[2].cancel()
        gate.open.set()
        done = await asyncio.gather(*sends, return_exceptions=True)
        assert isinstance(done[2], asyncio.CancelledError)
        assert [result.queue_offset for result in done[:2] + done[3:]] == [0, 1, 2, 3]
        assert (await sender.send(Message("T", b"again"))).queue_offset == 4


async def test_bytes_in_flight_are_limited_and_a_large_send_goes_alone() -> None:
    cluster = Cluster(T=1)
    gate = Gate(cluster)
    options = {"transport": cluster.transport, "limits": SendLimits(max_bytes=100)}
    async with aio.Producer(NAMESRV, **options) as sender:
        small = asyncio.create_task(sender.send([Message("T", b"x" * 20)] * 4))
        await gate.wait_for(1)
        with pytest.raises(ClientTimeout, match=r"raise limits=SendLimits\("):
            await sender.send(Message("T", b"x" * 21), timeout=0.01)
        large = asyncio.create_task(sender.send(Message("T", b"x" * 1000)))
        gate.open.set()
        assert (await small).queue_offset == 0
        assert (await large).queue_offset == 1


def test_send_async_blocks_its_caller_until_there_is_room() -> None:
    cluster = Cluster(T=1)
    entered, release = threading.Event(), threading.Event()

    async def hold(address: str, request: Frame) -> Frame:
        entered.set()
        assert await asyncio.to_thread(release.wait, 30)
        return cluster.send(address, request)

    cluster.transport.scripts[310] = hold
    options = {"transport": cluster.transport, "limits": SendLimits(max_messages=1), "timeout": 30}
    with Producer(NAMESRV, **options) as sender:
        futures = []
        filler = threading.Thread(
            target=lambda: futures.extend(
                sender.send_async(Message("T", body)) for body in (b"first", b"second", b"third")
            )
        )
        filler.start()
        assert entered.wait(30)
        assert len(futures) <= 1
        release.set()
        filler.join(30)
        assert len([future.result(30) for future in futures]) == 3


# --- brokers that are avoided


def test_a_slow_broker_is_avoided_for_rocketmqs_times() -> None:
    queues = [MessageQueue("T", name, 0) for name in ("a", "b")]
    faults = LatencyFaults()
    turns = iter(range(100))
    faults.note("a", 0.54, failed=False)
    assert {faults.choose(queues, turns.__next__).broker_name for _ in range(4)} == {"a", "b"}
    faults.note("a", 0.55, failed=False)
    assert {faults.choose(queues, turns.__next__).broker_name for _ in range(4)} == {"b"}
    faults.note("b", 0.01, failed=True)
    # Both brokers are avoided now, so the faster one is taken.
    assert {faults.choose(queues, turns.__next__).broker_name for _ in range(4)} == {"b"}


async def test_a_failed_broker_gets_no_more_sends() -> None:
    cluster = Cluster()
    data = TopicRouteData(
        [BrokerData("broker-a", "C", {0: "a:1"}), BrokerData("broker-b", "C", {0: "b:1"})],
        [QueueData("broker-a", 1, 1), QueueData("broker-b", 1, 1)],
    )
    cluster.transport.scripts[105] = lambda _a, _r: Frame(0, body=data.to_json())
    asked = []

    def send(address: str, request: Frame) -> Frame:
        asked.append(address)
        return Frame(14, remark="stopping") if address == "a:1" else cluster.send(address, request)

    cluster.transport.scripts[310] = send
    options = {"transport": cluster.transport, "queue_index_start": 0, "avoid_slow_brokers": True}
    async with aio.Producer(NAMESRV, **options) as sender:
        for _ in range(4):
            await sender.send(Message("T", b"x"))
    assert asked == ["a:1", "b:1", "b:1", "b:1", "b:1"]
    del options["avoid_slow_brokers"]
    async with aio.Producer(NAMESRV, **options) as sender:
        asked.clear()
        for _ in range(4):
            await sender.send(Message("T", b"x"))
    assert asked.count("a:1") > 1


def test_sends_work_while_brokers_are_rated(mq) -> None:
    topic = mq.topic()
    with Producer(mq.namesrv, avoid_slow_brokers=True) as sender:
        results = [sender.send(Message(topic, b"x")) for _ in range(8)]
    assert len({result.message_queue.queue_id for result in results}) == 4


# --- messages for a certain time


def test_a_broker_older_than_rocketmq_5_refuses_a_time(mq) -> None:
    later = Message(mq.topic(), b"x", deliver_at=datetime.now(UTC) + timedelta(hours=1))
    with Producer(mq.namesrv) as sender:
        for send in (sender.send, sender.send_oneway, sender.request):
            with pytest.raises(RocketMQError, match="is older than RocketMQ 5, so it may deliver"):
                send(later)
        with pytest.raises(ValueError, match="a batch has no deliver_at"):
            sender.send([later])
    with aio_transaction(mq) as producer, pytest.raises(ValueError, match="cannot be delayed"):
        producer.send_in_transaction(later, lambda _message: None)


def aio_transaction(mq) -> TransactionProducer:
    return TransactionProducer("timed", mq.namesrv, check=lambda _message: None)


async def test_a_broker_of_rocketmq_5_gets_the_time() -> None:
    cluster = Cluster(T=1)
    beat = cluster.heartbeat

    def newer(address: str, request: Frame) -> Frame:
        answer = beat(address, request)
        answer.version = VERSION_5_0_0
        return answer

    cluster.transport.scripts[int(RequestCode.HEART_BEAT)] = newer
    when = datetime(2030, 1, 1, tzinfo=UTC)
    async with aio.Producer(NAMESRV, transport=cluster.transport) as sender:
        await sender.send(Message("T", b"x", deliver_at=when))
    (request,) = cluster.requests(RequestCode.SEND_MESSAGE_V2)
    assert "TIMER_DELIVER_MS\x011893456000000" in request.fields["i"]


@pytest.mark.parametrize(
    ("options", "error", "why"),
    [
        ({"deliver_at": 5}, TypeError, "deliver_at must be a datetime, not int"),
        ({"deliver_at": datetime(2030, 1, 1)}, ValueError, "needs a time zone"),
        (
            {"deliver_at": datetime(2030, 1, 1, tzinfo=UTC), "delay_level": 1},
            ValueError,
            "not both",
        ),
    ],
)
def test_bad_times(options, error, why) -> None:
    with pytest.raises(error, match=why):
        Message("T", b"x", **options)

"""When a send is tried again: other brokers first, then the same ones, until its timeout."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from mqclient import BrokerError, Message, MessageQueue, Retry, UnreachableError
from mqclient.aio import Producer
from mqclient.producer import retry
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.bodies.route import BrokerData, QueueData, TopicRouteData
from mqserver.embedded.standalone import Standalone
from mqserver.embedded.testing import free_port
from tests.client.cluster import NAMESRV, Cluster

SENDS = 200


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Very short pauses, for tests."""
    monkeypatch.setattr(retry, "PAUSE_FIRST_S", 0.001)


Answer = Callable[[str, Frame], Frame | Exception]


def producer(cluster: Cluster, **options) -> Producer:
    return Producer(NAMESRV, transport=cluster.transport, queue_index_start=0, **options)


def brokers(cluster: Cluster, names: Iterable[str]) -> None:
    """Topic T on some brokers, one queue each, at the address "NAME:1"."""
    data = TopicRouteData(
        [BrokerData(name, "C", {0: f"{name}:1"}) for name in names],
        [QueueData(name, 1, 1) for name in names],
    )
    cluster.transport.scripts[105] = lambda _a, _r: Frame(0, body=data.to_json())


def asked(cluster: Cluster) -> list[str]:
    """The brokers that got the sends, in order."""
    return [
        address[0]
        for address, frame in cluster.transport.sent
        if frame.code == RequestCode.SEND_MESSAGE_V2
    ]


def failing(cluster: Cluster, times: int, failure: Callable[[str], Frame | Exception]) -> Answer:
    """The first sends fail, later ones are stored."""
    left = [times]

    def answer(address: str, request: Frame) -> Frame | Exception:
        if left[0]:
            left[0] -= 1
            return failure(address)
        return cluster.send(address, request)

    return answer


def refused(address: str) -> Exception:
    return UnreachableError("refused", address)


async def test_every_other_broker_is_tried_before_one_again(quick):
    cluster = Cluster()
    brokers(cluster, "abc")
    cluster.transport.scripts[310] = failing(cluster, 4, refused)
    async with producer(cluster) as sender:
        await sender.send(Message("T", b"x"))
    order = asked(cluster)
    assert len(order) == 5
    assert set(order[:3]) == {"a", "b", "c"}
    ids = {frame.fields["i"] for frame in cluster.requests(RequestCode.SEND_MESSAGE_V2)}
    assert len(ids) == 1, "duplicates made by retries share one UNIQ_KEY"


@pytest.mark.parametrize("code", [1, 14])
async def test_what_passes_is_tried_again_on_the_only_broker(quick, code):
    cluster = Cluster(T=1)
    cluster.transport.scripts[310] = failing(cluster, 6, lambda _a: Frame(code, remark="not yet"))
    async with producer(cluster) as sender:
        assert (await sender.send(Message("T", b"x"))).queue_offset == 0
    assert len(asked(cluster)) == 7


@pytest.mark.parametrize("code", [16, 17, 204, 205])
async def test_a_refusal_by_every_broker_is_raised_at_once(code):
    cluster = Cluster()
    brokers(cluster, "ab")
    cluster.transport.scripts[310] = lambda _a, _r: Frame(code, remark="no")
    async with producer(cluster, timeout=300) as sender:
        with pytest.raises(BrokerError) as caught:
            await sender.send(Message("T", b"x"))
    assert caught.value.code == code
    assert sorted(asked(cluster)) == ["a", "b"]


async def test_a_refusal_does_not_end_the_wait_for_another_broker(quick):
    cluster = Cluster()
    brokers(cluster, "ab")
    down = failing(cluster, 3, refused)
    cluster.transport.scripts[310] = lambda address, request: (
        Frame(16, remark="read-only") if address == "b:1" else down(address, request)
    )
    async with producer(cluster) as sender:
        assert (await sender.send(Message("T", b"x"))).message_queue.broker_name == "a"


async def test_retries_bound_the_tries(quick):
    cluster = Cluster(T=1)
    cluster.transport.scripts[310] = lambda address, _r: refused(address)
    async with producer(cluster, retry=Retry(max_retries=2), timeout=300) as sender:
        with pytest.raises(UnreachableError, match="advertises for it: refused"):
            await sender.send(Message("T", b"x"))
    assert len(asked(cluster)) == 3


async def test_the_timeout_ends_the_tries(quick):
    cluster = Cluster(T=1)
    cluster.transport.scripts[310] = lambda address, _r: refused(address)
    async with producer(cluster, timeout=0.2) as sender:
        started = time.monotonic()
        with pytest.raises(UnreachableError, match="refused"):
            await sender.send(Message("T", b"x"))
        assert time.monotonic() - started < 60
    assert len(asked(cluster)) > 3


async def test_a_given_queue_is_tried_again_while_its_broker_is_away(quick):
    cluster = Cluster(T=4)
    queue = MessageQueue("T", "broker-a", 3)
    cluster.transport.scripts[310] = failing(cluster, 5, refused)
    async with producer(cluster) as sender:
        assert (await sender.send(Message("T", b"x"), queue=queue)).message_queue == queue
    assert {f.fields["e"] for f in cluster.requests(RequestCode.SEND_MESSAGE_V2)} == {"3"}


async def test_less_durable_copies_are_few(quick):
    cluster = Cluster(T=2)

    def lesser(address: str, request: Frame) -> Frame:
        reply = cluster.send(address, request)
        reply.code = 11
        return reply

    cluster.transport.scripts[310] = lesser
    async with producer(cluster, retry=Retry(not_durable=True), timeout=300) as sender:
        assert (await sender.send(Message("T", b"x"))).status == "SLAVE_NOT_AVAILABLE"
    assert len(asked(cluster)) == 3


async def test_the_route_is_asked_for_again_after_failures(quick):
    cluster = Cluster()
    brokers(cluster, "a")
    cluster.transport.scripts[310] = lambda address, request: (
        refused(address) if address == "a:1" else cluster.send(address, request)
    )
    async with producer(cluster, timeout=60) as sender:
        await sender.queues("T")
        brokers(cluster, "b")
        assert (await sender.send(Message("T", b"x"))).message_queue.broker_name == "b"


async def test_sends_ride_out_a_restart_of_the_only_broker(tmp_path: Path):
    """Every send is acknowledged, and every acknowledged message is stored."""
    mq = Standalone(tmp_path, namesrv_port=free_port(), port=free_port())
    with mq:
        topic = mq.topic(queues=2)
        async with Producer(mq.namesrv, timeout=120) as sender:
            await sender.send(Message(topic, b"before"))

            async def sends(worker: int) -> None:
                for number in range(SENDS // 20):
                    await sender.send(Message(topic, b"%d-%d" % (worker, number)))
                    sent.set()

            sent = asyncio.Event()
            working = asyncio.gather(*(sends(worker) for worker in range(20)))
            await sent.wait()
            await asyncio.to_thread(mq.stop)
            late = [
                asyncio.ensure_future(sender.send(Message(topic, b"late-%d" % i)))
                for i in range(20)
            ]
            await asyncio.to_thread(mq.start)
            results = await asyncio.gather(*late)
            await working
        assert {result.status for result in results} == {"SEND_OK"}
        wanted = {b"%d-%d" % (worker, n) for worker in range(20) for n in range(SENDS // 20)}
        wanted |= {b"before"} | {b"late-%d" % i for i in range(20)}
        assert {message.body for message in mq.messages(topic)} == wanted

"""A changed subscription loses no message that the new filter matches."""

import asyncio
import time

import pytest

from mqclient.aio import LitePullConsumer, PushConsumer
from mqclient.consumer import subscription_versions
from mqclient.consumer.subscription import subscription_of
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.bodies.groups import ConsumerConnection
from mqcommon.wire.bodies.heartbeat import SubscriptionData
from mqcommon.wire.codes import ResponseCode
from tests.client.cluster import NAMESRV, Cluster
from tests.client.reading import Seen
from tests.waiting import until_async


class Filtering(Cluster):
    """Its broker judges a pull, however long it was held, by the tag that the pull asked for.

    The tag comes from a lite pull's own header, or from the heartbeat known when it arrived. The
    next offset of the answer lies after all messages, as RocketMQ's does.
    """

    def __init__(self) -> None:
        super().__init__(T=1)
        self.release = asyncio.Event()
        self.held = 0

    async def pull(self, address: str, request: Frame) -> Frame:
        if request.fields["topic"] != "T":
            return await super().pull(address, request)
        tag = request.fields.get("subscription") or self._heard()
        start = int(request.fields["queueOffset"])
        while not self._found(start, tag):
            self.held += 1
            self.release.clear()
            await self.release.wait()
        stored = self.queue_of(request)
        fields = {
            "suggestWhichBrokerId": "0",
            "nextBeginOffset": str(len(stored)),
            "minOffset": "0",
            "maxOffset": str(len(stored)),
        }
        return Frame(0, fields, b"".join(self._found(start, tag)))

    def _heard(self) -> str:
        (data,) = self.heartbeats[-1].consumer_data_set
        (tag,) = [s.sub_string for s in data.subscription_data_set if s.topic == "T"]
        return tag

    def _found(self, start: int, tag: str) -> list[bytes]:
        stored = next(iter(self.stored.values()), [])
        return [row for row in stored[start:] if f"TAGS\x01{tag}".encode() in row]


async def lite_bodies(consumer, seen: Seen) -> None:
    async for message in consumer:
        await seen([message], None)


@pytest.mark.parametrize("kind", ["push", "broadcasting", "orderly", "lite"])
async def test_a_pull_in_flight_skips_no_match_of_the_new_filter(kind):
    cluster, seen = Filtering(), Seen()
    start = {"consume_from": "earliest", "transport": cluster.transport}
    if kind == "lite":
        consumer = LitePullConsumer("g", NAMESRV, **start)
        handler = ()
    else:
        options = {"model": "broadcasting"} if kind == "broadcasting" else {}
        options |= {"orderly": True} if kind == "orderly" else {}
        consumer = PushConsumer("g", NAMESRV, **start, **options)
        handler = (seen,)
    consumer.subscribe("T", "A", *handler)
    async with consumer:
        if kind == "lite":
            reading = asyncio.create_task(lite_bodies(consumer, seen))
        await until_async(lambda: cluster.held)
        consumer.subscribe("T", "B", *handler)
        cluster.put("T", b"b1", TAGS="B")
        cluster.put("T", b"a1", TAGS="A")
        cluster.release.set()  # the held pull answers with a1, and passes over b1
        assert await seen.until(1) == [b"b1"]
        cluster.put("T", b"b2", TAGS="B")
        cluster.release.set()
        assert await seen.until(2) == [b"b1", b"b2"]
    if kind == "lite":
        await reading


async def test_a_held_pull_does_not_delay_the_new_filter():
    cluster, seen = Filtering(), Seen()
    consumer = PushConsumer("g", NAMESRV, transport=cluster.transport, consume_from="earliest")
    consumer.subscribe("T", "A", seen)
    async with consumer:
        await until_async(lambda: cluster.held == 1)
        cluster.put("T", b"b1", TAGS="B")
        consumer.subscribe("T", "B", seen)
        assert await seen.until(1) == [b"b1"]  # the pull for A is still held
        assert not cluster.release.is_set()


def test_versions_rise_whatever_the_clock_does(monkeypatch):
    times = iter([5_000, 5_000, 3_000, 9_000])
    monkeypatch.setattr(subscription_versions, "_last", 0)
    monkeypatch.setattr(subscription_versions.time, "time_ns", lambda: next(times) * 1_000_000)
    made = [subscription_of("T", "A").data.sub_version for _ in range(4)]
    assert made == [5_000, 5_001, 5_002, 9_000]


@pytest.mark.parametrize("sub_string", ["A", "B"])
async def test_a_member_with_a_slow_clock_outranks_online_members(sub_string):
    cluster, ahead = Cluster(T=1), time.time_ns() // 1_000_000 + 3_600_000
    known = SubscriptionData("T", sub_string, sub_version=ahead)
    cluster.online = Frame(0, body=ConsumerConnection([], {"T": known}).to_json())
    consumer = PushConsumer("g", NAMESRV, transport=cluster.transport)
    consumer.subscribe("T", "B", Seen())
    async with consumer:
        (data,) = cluster.heartbeats[0].consumer_data_set
        (sent,) = [item for item in data.subscription_data_set if item.topic == "T"]
        await until_async(lambda: cluster.requests(RequestCode.PULL_MESSAGE))
    assert (sent.sub_version > ahead) is (sub_string == "A")


async def test_a_broker_without_a_member_list_does_not_stop_the_start():
    cluster, seen = Cluster(T=1), Seen()
    cluster.put("T", b"0")
    cluster.online = Frame(int(ResponseCode.NO_PERMISSION), remark="no")
    consumer = PushConsumer("g", NAMESRV, transport=cluster.transport, consume_from="earliest")
    consumer.subscribe("T", "*", seen)
    async with consumer:
        assert await seen.until(1) == [b"0"]

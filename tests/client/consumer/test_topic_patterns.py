"""Subscriptions by pattern: topics that match, appear, vanish, and how many there may be."""

from __future__ import annotations

import asyncio
import re
from contextlib import asynccontextmanager

import pytest

import mqclient
from mqclient import ClientTimeout, Connection, SqlFilter, aio
from mqclient.consumer import topic_patterns
from mqcommon.wire import Frame, RequestCode
from mqcommon.wire.bodies.common import TopicList
from mqcommon.wire.bodies.route import BrokerData, ClusterInfo
from tests.client.cluster import BROKER, NAME, NAMESRV, Cluster
from tests.waiting import until, until_async

ORDERS = re.compile(r"orders-\w+")
SOON = {
    "connection": Connection(route_poll_interval=0.02),
    "rebalance_interval": 0.05,
    "consume_from": "earliest",
}
BOTH = pytest.mark.parametrize("kind", ["push", "lite"])
RESERVED = [
    "TBW102", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRACE_TOPIC",
    "rmq_sys_wheel_timer", "%RETRY%g", "%DLQ%g", "%LMQ%light", "OFFSET_MOVED_EVENT",
    "SELF_TEST_TOPIC", NAME, "DefaultCluster", "DefaultCluster_REPLY_TOPIC",
]  # fmt: skip


class Listed(Cluster):
    """A cluster whose NameServer lists its topics; `down` has no broker registered."""

    def __init__(self, *topics: str) -> None:
        super().__init__(**dict.fromkeys(topics, 1))
        self.down, self.listed_only = False, list[str]()
        scripts = self.transport.scripts
        scripts[int(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)] = self.list
        scripts[int(RequestCode.GET_BROKER_CLUSTER_INFO)] = self.brokers

    def list(self, _address, _request) -> Frame:
        return Frame(
            0, body=TopicList([] if self.down else [*self.topics, *self.listed_only]).to_json()
        )

    def brokers(self, _address, _request) -> Frame:
        data = {} if self.down else {NAME: BrokerData(NAME, "DefaultCluster", {0: BROKER})}
        return Frame(0, body=ClusterInfo(data, {"DefaultCluster": [NAME]}).to_json())

    def route_asks(self, topic: str) -> int:
        asked = self.requests(RequestCode.GET_ROUTEINFO_BY_TOPIC)
        return sum(one.fields["topic"] == topic for one in asked)

    @property
    def looks(self) -> int:
        return len(self.requests(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER))


@asynccontextmanager
async def reading(kind: str, cluster: Cluster, seen: list, topic=ORDERS, expression="*", **more):
    options = {**SOON, "transport": cluster.transport, **more}
    if kind == "lite":
        consumer = aio.LitePullConsumer("g", NAMESRV, **options)
        consumer.subscribe(topic, expression)
    else:
        consumer = aio.PushConsumer("g", NAMESRV, **options)

        @consumer.on_message(topic, expression)
        async def handle(message):
            seen.append((message.topic, message.body))

    async with consumer:
        await consumer.wait_assigned(60)
        yield consumer


async def read(consumer, seen: list, count: int) -> None:
    while isinstance(consumer, aio.LitePullConsumer) and len(seen) < count:
        seen += [(m.topic, m.body) for m in await consumer.poll(10, timeout=60)]
    await until_async(lambda: len(seen) == count)


@BOTH
async def test_topics_that_match_are_read_with_the_same_filter(kind):
    cluster, seen = Listed("orders-eu", "orders-us", "xorders-eu", "orders-eu.old", "other"), []
    cluster.put("orders-eu", b"1", TAGS="A")
    cluster.put("orders-us", b"2", TAGS="A")
    cluster.put("orders-us", b"3", TAGS="B")
    async with reading(kind, cluster, seen, expression="A") as consumer:
        assert consumer.subscription() == {"orders-eu": "A", "orders-us": "A"}
        await read(consumer, seen, 2)
    assert sorted(seen) == [("orders-eu", b"1"), ("orders-us", b"2")]


@BOTH
async def test_rocketmqs_own_topics_never_match(kind):
    cluster = Listed("mine", *RESERVED)
    async with reading(kind, cluster, [], topic=re.compile(".*")) as consumer:
        assert consumer.subscription() == {"mine": "*"}


@BOTH
async def test_a_topic_that_appears_is_read_from_its_beginning(kind):
    cluster, seen = Listed("orders-eu"), []
    async with reading(kind, cluster, seen, consume_from="latest") as consumer:
        cluster.put("orders-us", b"first")
        cluster.topics["orders-us"] = 1
        await read(consumer, seen, 1)
        assert seen == [("orders-us", b"first")]
        assert [queue.topic for queue in consumer.assignment()] == ["orders-eu", "orders-us"]


@BOTH
async def test_a_topic_that_vanished_is_left(kind, caplog):
    cluster = Listed("orders-eu", "orders-us")
    gone: list[str] = []
    async with reading(kind, cluster, []) as consumer:
        consumer.on_rebalance(revoked=lambda queues: gone.extend(q.topic for q in queues))
        del cluster.topics["orders-us"]
        await until_async(lambda: consumer.subscription() == {"orders-eu": "*"})
        await until_async(lambda: gone == ["orders-us"])
        cluster.topics["orders-us"] = 1
        await until_async(lambda: len(consumer.assignment()) == 2)


@BOTH
async def test_a_nameserver_without_brokers_takes_no_topic_away(kind):
    cluster = Listed("orders-eu")
    async with reading(kind, cluster, []) as consumer:
        cluster.down = True
        before = cluster.looks
        await until_async(lambda: cluster.looks > before + topic_patterns.ABSENT_MAX + 1)
        assert consumer.subscription() == {"orders-eu": "*"}


async def test_unknown_topics_are_named_when_the_wait_ends():
    cluster = Listed("orders-eu")
    cluster.down = True
    consumer = aio.LitePullConsumer("g", NAMESRV, transport=cluster.transport, **SOON)
    consumer.subscribe(ORDERS)
    async with consumer:
        text = r"topics of the patterns are not known after 0\.05 s: no broker is registered"
        with pytest.raises(ClientTimeout, match=text):
            await consumer.wait_assigned(0.05)
        cluster.down = False
        await consumer.wait_assigned(60)
        assert list(consumer.subscription()) == ["orders-eu"]


@BOTH
async def test_no_topic_may_match(kind):
    async with reading(kind, Listed("other"), []) as consumer:
        assert await consumer.wait_assigned(60) == []


async def test_a_topic_by_name_keeps_its_own_handler():
    cluster, named, found = Listed("orders-eu", "orders-us"), [], []
    consumer = aio.PushConsumer("g", NAMESRV, transport=cluster.transport, **SOON)
    consumer.on_message(ORDERS)(lambda message: found.append(message.body))
    consumer.on_message("orders-eu", "A")(lambda message: named.append(message.body))
    async with consumer:
        await consumer.wait_assigned(60)
        assert consumer.subscription() == {"orders-eu": "A", "orders-us": "*"}
        cluster.put("orders-eu", b"1", TAGS="A")
        cluster.put("orders-us", b"2")
        await until_async(lambda: (named, found) == ([b"1"], [b"2"]))
        consumer.on_message("orders-us")(lambda message: named.append(message.body))
        cluster.put("orders-us", b"3")
        await until_async(lambda: named == [b"1", b"3"])


@BOTH
async def test_patterns_and_their_topics_are_unsubscribed(kind):
    cluster = Listed("orders-eu", "orders-us", "bills-eu")
    async with reading(kind, cluster, []) as consumer:
        consumer.unsubscribe("orders-us")
        handler = () if kind == "lite" else (lambda _messages, _context: None,)
        consumer.subscribe(re.compile("bills-.*"), "*", *handler)
        await consumer.wait_assigned(60)
        assert sorted(consumer.subscription()) == ["bills-eu", "orders-eu"]
        before = cluster.looks
        await until_async(lambda: cluster.looks > before + 1)
        assert "orders-us" not in consumer.subscription(), "it was left by its name"
        consumer.unsubscribe(ORDERS)
        assert list(consumer.subscription()) == ["bills-eu"]
        await until_async(lambda: [q.topic for q in consumer.assignment()] == ["bills-eu"])


async def test_a_pattern_that_is_subscribed_again_gets_the_new_filter():
    cluster = Listed("orders-eu")
    async with reading("lite", cluster, []) as consumer:
        consumer.subscribe(ORDERS, SqlFilter("a > 5"))
        await until_async(lambda: consumer.subscription() == {"orders-eu": SqlFilter("a > 5")})


@BOTH
async def test_the_number_of_topics_is_bounded(kind, monkeypatch, caplog):
    monkeypatch.setattr(topic_patterns, "TOPICS_MAX", 3)
    cluster = Listed(*(f"orders-{n}" for n in range(5)))
    async with reading(kind, cluster, []) as consumer:
        before = cluster.looks
        cluster.topics["orders-00"] = 1  # sorts before those that are read
        await until_async(lambda: cluster.looks > before + 5)
        assert sorted(consumer.subscription()) == ["orders-0", "orders-1", "orders-2"]
    full = [r for r in caplog.records if "match more than 3 topics; orders-3" in r.getMessage()]
    assert len(full) == 1, "said once"


@BOTH
async def test_names_of_a_namespace_match_without_it(kind):
    cluster, seen = Listed("shop%orders-eu", "orders-us", "%RETRY%shop%g"), []
    cluster.put("shop%orders-eu", b"1")
    async with reading(kind, cluster, seen, namespace="shop") as consumer:
        assert consumer.subscription() == {"orders-eu": "*"}
        await read(consumer, seen, 1)
    assert seen == [("orders-eu", b"1")]


async def test_a_nameserver_that_lists_nothing_is_logged_once(caplog):
    cluster = Listed("orders-eu")
    async with reading("lite", cluster, []) as consumer:
        refuse = int(RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER)
        cluster.transport.scripts[refuse] = lambda _a, _r: Frame(1, remark="disabled")
        before = cluster.looks
        await until_async(lambda: cluster.looks > before + 3)
        assert consumer.subscription() == {"orders-eu": "*"}
    logged = [r for r in caplog.records if "looking for topics by pattern" in r.getMessage()]
    assert [r.levelname for r in logged if r.levelname != "DEBUG"] == ["WARNING"]


@pytest.mark.parametrize("face", [mqclient, aio])
def test_wrong_patterns_are_refused(face):
    push, lite = face.PushConsumer("g", NAMESRV), face.LitePullConsumer("g", NAMESRV)
    with pytest.raises(TypeError, match="must be of str, not of bytes"):
        lite.subscribe(re.compile(b"orders"))
    with pytest.raises(TypeError, match="must be of str, not of bytes"):
        push.on_message(re.compile(b"orders"))
    with pytest.raises(TypeError, match="on_message needs a topic, not a int"):
        push.on_message(5)
    with pytest.raises(TypeError, match="topic must be str, not int"):
        push.unsubscribe(5)
    with pytest.raises(ValueError, match="without a group cannot subscribe"):
        face.LitePullConsumer(None, NAMESRV).subscribe(ORDERS)
    lite.subscribe(ORDERS)
    with pytest.raises(ValueError, match="subscribes to patterns, and assign excludes subscribe"):
        lite.assign([])


@pytest.mark.parametrize("orderly", [False, True])
def test_topics_are_found_at_a_real_nameserver(mq, orderly):
    prefix = f"found-{orderly}"
    first, second = mq.topic(f"{prefix}-a"), f"{prefix}-b"
    seen: list[tuple[str, bytes]] = []
    options = {**SOON, "consume_from": "latest"}
    consumer = mqclient.PushConsumer(f"g_{prefix}", mq.namesrv, orderly=orderly, **options)
    consumer.on_message(re.compile(rf"{prefix}-.*|TBW102|%.*"))(
        lambda message: seen.append((message.topic, message.body))
    )
    with mqclient.Producer(mq.namesrv) as producer, consumer:
        consumer.wait_assigned(60)
        assert consumer.subscription() == {first: "*"}
        producer.send(mqclient.Message(first, b"1"))
        producer.send(mqclient.Message(second, b"2"))
        assert until(lambda: sorted(seen) == [(first, b"1"), (second, b"2")])
        with mqclient.Admin(mq.namesrv) as admin:
            admin.topics.delete(second, "DefaultCluster")
        assert until(lambda: consumer.subscription() == {first: "*"})


async def test_the_asyncio_lite_consumer_finds_topics_too(mq):
    topic = mq.topic("lite-found")
    async with aio.LitePullConsumer("g_lite_found", mq.namesrv, **SOON) as consumer:
        consumer.subscribe(re.compile("lite-.*"))
        await consumer.wait_assigned(60)
        assert list(consumer.subscription()) == [topic]
        async with aio.Producer(mq.namesrv) as producer:
            await producer.send(mqclient.Message(topic, b"x"))
        async with asyncio.timeout(60):
            assert [message.body for message in await consumer.poll(timeout=60)] == [b"x"]


@BOTH
async def test_a_found_topic_without_a_route_is_no_warning(kind, caplog):
    cluster = Listed("orders-eu")
    cluster.listed_only = ["orders-us"]
    async with reading(kind, cluster, [], topic=re.compile("orders-eu")) as consumer:
        consumer.subscribe(ORDERS, "*", *([print] if kind == "push" else []))
        await until_async(lambda: "orders-us" in consumer.subscription())
        await until_async(lambda: cluster.route_asks("orders-us") > 5)
    assert "until it exists" not in caplog.text

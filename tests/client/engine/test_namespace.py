"""Namespaces: the rules for names, and clients of one namespace against our own servers."""

from __future__ import annotations

import queue as queues
import threading

import pytest

import mqclient
from mqclient import (
    ConsumeResult,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
    aio,
)
from mqclient.engine.namespace import Namespace
from mqcommon.message import MessageQueue

SHOP = Namespace("shop")


@pytest.mark.parametrize(
    ("plain", "wrapped"),
    [
        ("Orders", "shop%Orders"),
        ("readers", "shop%readers"),
        ("%RETRY%readers", "%RETRY%shop%readers"),
        ("%DLQ%readers", "%DLQ%shop%readers"),
        ("shopping%T", "shop%shopping%T"),
    ],
)
def test_names_are_wrapped_and_unwrapped_once(plain: str, wrapped: str) -> None:
    assert SHOP.wrap(plain) == SHOP.wrap(wrapped) == wrapped
    assert SHOP.unwrap(wrapped) == SHOP.unwrap(plain) == plain
    assert Namespace(None).wrap(plain) == plain
    assert Namespace(None).unwrap(wrapped) == wrapped


@pytest.mark.parametrize(
    "name",
    ["TBW102", "RMQ_SYS_TRACE_TOPIC", "SCHEDULE_TOPIC_XXXX", "rmq_sys_x", "CID_RMQ_SYS_TRANS"],
)
def test_rocketmqs_own_names_are_in_no_namespace(name: str) -> None:
    assert SHOP.wrap(name) == SHOP.unwrap(name) == name


def test_another_namespace_stays() -> None:
    assert SHOP.unwrap("other%Orders") == "other%Orders"


@pytest.mark.parametrize("name", ["", "a b", "a%b", "x" * 65])
def test_bad_namespaces(name: str) -> None:
    with pytest.raises(ValueError, match="must be 1 to 64 letters"):
        Producer("h:1", namespace=name)


def test_a_name_that_grows_too_long_is_refused() -> None:
    with pytest.raises(ValueError, match="at most 255"):
        Producer("h:1", namespace="shop", group="g" * 252)
    consumer = PushConsumer("g", "h:1", namespace="shop")
    # A topic to read may have a name that can no longer be created.
    consumer.subscribe("T" * 125, "*", lambda _messages, _context: None)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_push_consumer_gets_plain_names_in_retries_too(mq, orderly) -> None:
    topic, group = mq.topic(), f"namespace_push_{orderly}"
    seen: queues.SimpleQueue[tuple[str, str, str | None, int]] = queues.SimpleQueue()

    def handle(messages, context):
        (message,) = messages
        seen.put(
            (
                message.topic,
                context.message_queue.topic,
                message.properties.get("INSTANCE_ID"),
                message.reconsume_times,
            )
        )
        context.delay_level = 1
        context.retry_delay = 0.01
        return None if message.reconsume_times else ConsumeResult.RECONSUME_LATER

    consumer = PushConsumer(
        group, mq.namesrv, namespace="shop", consume_from="earliest", orderly=orderly
    )
    with Producer(mq.namesrv, namespace="shop") as sender:
        result = sender.send([Message(topic, b"1")])
        assert result.message_queue.topic == topic
        assert {one.topic for one in sender.queues(topic)} == {topic}
        to_one = sender.send(Message(topic, b"2"), queue=result.message_queue)
        assert to_one.message_queue == result.message_queue
        with consumer:
            consumer.subscribe(topic, "*", handle)
            assert {one.topic for one in consumer.wait_assigned(60)} == {topic}
            got = sorted(seen.get(timeout=60) for _ in range(4))
    retried = topic if orderly else "%RETRY%" + group
    first, again = (topic, topic, "shop", 0), (topic, retried, "shop", 1)
    assert got == sorted([first, first, again, again])


def test_the_broker_sees_the_namespace(mq) -> None:
    topic = mq.topic()
    with Producer(mq.namesrv, namespace="shop") as sender:
        sender.send(Message(topic, b"inside"), order_key="k")
    with LitePullConsumer(None, mq.namesrv) as outside:
        whole = outside.queues(f"shop%{topic}")
        assert len(whole) == 4
        outside.assign(whole)
        for queue in whole:
            outside.seek_to_begin(queue)
        (message,) = outside.poll(timeout=30)
        assert (message.topic, message.body) == (f"shop%{topic}", b"inside")


def test_a_lite_pull_consumer_gets_plain_names(mq) -> None:
    topic = mq.topic()
    with Producer(mq.namesrv, namespace="shop") as sender:
        sender.send(Message(topic, b"x"), order_key=1)
    gained = []
    with LitePullConsumer(
        "namespace_lite", mq.namesrv, namespace="shop", consume_from="earliest"
    ) as consumer:
        consumer.on_rebalance(assigned=gained.append)
        consumer.subscribe(topic)
        ours = consumer.wait_assigned(60)
        assert ours == consumer.assignment() == consumer.queues(topic)
        assert gained[0] == ours
        assert {queue.topic for queue in ours} == {topic}
        message = next(iter(consumer))
        assert message.topic == topic
        queue = MessageQueue(topic, message.broker_name, message.queue_id)
        assert consumer.position(queue) == 0
        consumer.commit(message)
        assert consumer.committed(queue) == 1
        consumer.seek(queue, 0)
        assert next(iter(consumer)).body == b"x"
        consumer.pause([queue])
        consumer.resume()
        consumer.commit({queue: 0})
        assert consumer.committed(queue) == 0


def test_transactions_and_requests_work_in_a_namespace(mq) -> None:
    topic = mq.topic()
    asked: queues.SimpleQueue[str] = queues.SimpleQueue()

    def check(message):
        asked.put(message.topic)
        return TransactionState.COMMIT

    seen: queues.SimpleQueue[bytes] = queues.SimpleQueue()
    replier = Producer(mq.namesrv, namespace="shop", group="repliers")
    consumer = PushConsumer(
        "namespace_mixed", mq.namesrv, namespace="shop", consume_from="earliest"
    )

    def handle(messages, _context):
        seen.put(messages[0].body)
        if messages[0].properties.get("REPLY_TO_CLIENT"):
            replier.send(mqclient.reply(messages[0], b"pong"))

    transactions = TransactionProducer("payers", mq.namesrv, namespace="shop", check=check)
    with transactions, replier, consumer:
        with transactions.transaction(Message(topic, b"paid")) as tx:
            assert tx.result.message_queue.topic == topic
            tx.commit()
        consumer.subscribe(topic, "*", handle)
        assert seen.get(timeout=60) == b"paid"
        assert replier.request(Message(topic, b"ping"), timeout=30).body == b"pong"


def test_the_callers_allocation_knows_plain_names(mq) -> None:
    topic = mq.topic()
    done = threading.Event()
    with Producer(mq.namesrv, namespace="shop") as sender:
        chosen = sender.send(Message(topic, b"x")).message_queue
        with PushConsumer(
            "namespace_listed",
            mq.namesrv,
            namespace="shop",
            allocate=[chosen],
            consume_from="earliest",
        ) as consumer:
            consumer.subscribe(topic, "*", lambda _messages, _context: done.set())
            assert consumer.wait_assigned(60) == [chosen]
            assert done.wait(60)


async def test_the_asyncio_faces_have_namespaces(mq) -> None:
    topic = mq.topic()
    async with aio.Producer(mq.namesrv, namespace="shop") as sender:
        await sender.send_oneway(Message(topic, b"o"))
        result = await sender.send(Message(topic, b"x"), selector=lambda found, _m: found[0])
        assert result.message_queue.topic == topic

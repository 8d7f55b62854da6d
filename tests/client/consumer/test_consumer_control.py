"""Requests of a broker to our consumers, and pausing, against our own broker."""

import asyncio
import threading

import pytest

from mqclient import Admin, ConsumeResult, Message, Orderly, Producer, PushConsumer
from mqclient import aio as mqaio
from mqcommon.message import MessageQueue
from mqcommon.wire import Frame
from mqcommon.wire.bodies.offsets import GetConsumerStatusBody
from mqcommon.wire.calls import message_calls
from mqserver.embedded.raw_client import Probe
from tests.waiting import until, until_async

DEADLINE = 60
OPTIONS = {"consume_from": "earliest"}
ORDERS = {False: {}, True: {"orderly": Orderly(retry_delay=0.01)}}


def send(mq, topic: str, *bodies: bytes) -> list[str]:
    """Messages to queue 0; their offset ids."""
    with Producer(mq.namesrv) as producer:
        queue = producer.queues(topic)[0]
        return [producer.send(Message(topic, b), queue=queue).offset_msg_id for b in bodies]


def ask(mq, request: Frame) -> Frame:
    with Probe(mq.broker_address, timeout=DEADLINE) as broker:
        return broker.call(request)


async def test_a_suspended_consumer_gets_nothing_until_it_is_resumed(mq):
    topic = mq.topic(queues=1)
    seen, others = [], []
    async with (
        mqaio.PushConsumer("g_pause", mq.namesrv, **OPTIONS) as consumer,
        mqaio.PushConsumer("g_other", mq.namesrv, **OPTIONS) as other,
    ):
        for reader, bodies in ((consumer, seen), (other, others)):
            reader.on_message(topic)(lambda message, bodies=bodies: bodies.append(message.body))
            await reader.wait_assigned()
        send(mq, topic, b"0")
        await until_async(lambda: seen == others == [b"0"])
        consumer.pause()
        send(mq, topic, b"1", b"2")
        await until_async(lambda: others == [b"0", b"1", b"2"])
        assert seen == [b"0"]
        assert consumer.assignment(), "it keeps its queues"
        consumer.resume()
        await until_async(lambda: sorted(seen) == [b"0", b"1", b"2"])


def test_the_blocking_consumer_suspends_too(mq):
    topic = mq.topic(queues=1)
    done = threading.Event()
    consumer = PushConsumer("g_pause_too", mq.namesrv, **OPTIONS)
    consumer.pause()
    consumer.on_message(topic)(lambda _message: done.set())
    with consumer:
        consumer.wait_assigned()
        send(mq, topic, b"0")
        consumer.resume()
        assert done.wait(DEADLINE)


@pytest.mark.parametrize("orderly", [False, True])
def test_running_info(mq, orderly):
    topic, group = mq.topic(queues=1), f"g_info_{orderly}"
    send(mq, topic, b"0", b"fails", b"2")
    begun, go_on = threading.Event(), threading.Event()

    def handle(messages, _context):
        if messages[0].body == b"fails" and not messages[0].reconsume_times:
            raise RuntimeError("boo")
        if messages[0].body == b"2":
            begun.set()
            assert go_on.wait(DEADLINE)

    with (
        PushConsumer(group, mq.namesrv, **ORDERS[orderly], **OPTIONS) as consumer,
        Admin(mq.namesrv) as admin,
    ):
        consumer.subscribe(topic, "*", handle)
        assert begun.wait(DEADLINE)
        queue = MessageQueue(topic, "broker-a", 0)

        def info():
            return admin.groups.running_info(group, consumer.client_id, stacks=True)

        assert until(lambda: info().mq_table[queue].cached_msg_count == 1)
        found = info()
        go_on.set()
    assert found.properties["PROP_CONSUMEORDERLY"] == str(orderly).lower()
    assert found.properties["PROP_NAMESERVER_ADDR"] == f"{mq.namesrv};"
    assert found.properties["PROP_THREADPOOL_CORE_SIZE"] == "20"
    held = found.mq_table[queue]
    assert held.locked == orderly
    assert (held.last_lock_timestamp > 0) == orderly
    assert held.last_pull_timestamp > 0
    assert held.last_consume_timestamp > 0
    assert (held.cached_msg_min_offset, held.commit_offset) == (2, 2)
    status = found.status_table[topic]
    assert (status.consume_failed_msgs, status.consume_failed_tps > 0) == (1, True)
    assert status.consume_ok_tps > 0
    assert status.pull_tps > 0
    assert "ConsumeMessageThread_" in found.jstack
    assert " handle(" in found.jstack


RESULTS = [
    (None, "CR_SUCCESS", None),
    (ConsumeResult.SUCCESS, "CR_SUCCESS", None),
    (ConsumeResult.RECONSUME_LATER, "CR_LATER", None),
    (ConsumeResult.SUSPEND_CURRENT_QUEUE_A_MOMENT, "CR_LATER", None),
    (ConsumeResult.COMMIT, "CR_COMMIT", None),
    (ConsumeResult.ROLLBACK, "CR_ROLLBACK", None),
    ("yes", "CR_LATER", "the handler returned 'yes', no ConsumeResult"),
    (RuntimeError("boo"), "CR_THROW_EXCEPTION", "RuntimeError: boo"),
]


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("kind", ["batch", "async batch", "message", "async message"])
async def test_one_message_is_consumed_directly(mq, kind, orderly):
    topic, group = mq.topic(queues=1), f"g_{kind.replace(' ', '_')}_{orderly}"
    (msg_id,) = send(mq, topic, b"x")
    outcomes = [outcome for outcome, _, _ in RESULTS]

    def next_outcome():
        outcome = outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def on_batch(messages, context):
        assert [message.body for message in messages] == [b"x"]
        context.auto_commit = False
        return next_outcome()

    async def on_batch_async(messages, context):
        return on_batch(messages, context)

    def on_message(_message):
        return next_outcome()

    async def on_message_async(_message):
        return next_outcome()

    options = {**ORDERS[orderly], "consume_from": "latest"}
    async with mqaio.PushConsumer(group, mq.namesrv, **options) as consumer:
        consumer.pause()  # the message must not come by itself
        if "batch" in kind:
            consumer.subscribe(topic, "*", on_batch_async if "async" in kind else on_batch)
        else:
            consumer.on_message(topic)(on_message_async if "async" in kind else on_message)
        await consumer.wait_assigned()
        call = message_calls.consume_directly(group, consumer.client_id, msg_id)
        for _, result, remark in RESULTS:
            done = call.result(await asyncio.to_thread(ask, mq, call.request), mq.broker_address)
            assert (done.consume_result, done.remark) == (result, remark)
            assert done.order == orderly
            assert done.auto_commit == ("message" in kind)


@pytest.mark.parametrize("orderly", [False, True])
def test_a_running_group_is_reset_to_an_earlier_offset(mq, orderly):
    topic, group = mq.topic(queues=1), f"g_reset_{orderly}"
    send(mq, topic, b"0", b"1", b"2")
    bodies: list[bytes] = []
    options = {**OPTIONS, **ORDERS[orderly], "commit_interval": 0.05}
    with PushConsumer(group, mq.namesrv, **options) as consumer:
        consumer.on_message(topic)(lambda message: bodies.append(message.body))
        assert until(lambda: len(bodies) == 3)
        fields = {"topic": topic, "group": group}
        queue = MessageQueue(topic, "broker-a", 0)

        def offsets():
            reply = ask(mq, Frame(223, fields))
            return GetConsumerStatusBody.from_json(reply.body).consumer_table

        assert until(lambda: offsets() == {consumer.client_id: {queue: 3}}), "221, by way of 223"
        assert until(
            lambda: ask(mq, Frame(222, {**fields, "timestamp": "0", "isForce": "true"})).code == 0
        )
        assert until(lambda: len(bodies) >= 6)
        send(mq, topic, b"3")
        assert until(lambda: b"3" in bodies)
    assert sorted(bodies[3:6]) == [b"0", b"1", b"2"]
    mq.wait_consumed(group, topic)

"""Handlers of one message, in both faces, concurrent and orderly, against our own broker."""

import asyncio
import runpy
import threading
from pathlib import Path

import pytest

from mqclient import ConsumeResult, Message, Orderly, Producer, PushConsumer
from mqclient import aio as mqaio
from mqserver.embedded.standalone import Standalone
from tests.waiting import until_async

DEADLINE = 60
OPTIONS = {"consume_from": "earliest", "batch_size": 16}
ORDERS = {False: {}, True: {"orderly": Orderly(retry_delay=0.01)}}


@pytest.fixture(scope="module")
def mq():
    with Standalone(settings={"messageDelayLevel": "1s"}) as both:  # the longest delay as well
        yield both


def send(mq, topic: str, *bodies: bytes, tags: str = "TagA") -> None:
    with Producer(mq.namesrv) as producer:
        producer.send([Message(topic, body, tags=tags) for body in bodies])


@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("kind", ["def", "async def"])
def test_the_blocking_consumer_runs_both_kinds_of_functions(mq, kind, orderly):
    topic, group = mq.topic(queues=1), f"g_{kind[:3]}_{orderly}"
    send(mq, topic, b"for others", tags="TagB")
    send(mq, topic, b"0", b"1", b"2")
    bodies, threads, done = [], set(), threading.Event()

    def note(message):
        bodies.append(message.body)
        threads.add(threading.current_thread().name)
        if len(bodies) == 3:
            done.set()

    async def note_on_loop(message):
        await asyncio.sleep(0)
        note(message)

    consumer = PushConsumer(group, mq.namesrv, **ORDERS[orderly], **OPTIONS)
    function = note if kind == "def" else note_on_loop
    assert consumer.on_message(topic, "TagA")(function) is function
    with consumer:
        assert done.wait(DEADLINE)
    assert sorted(bodies) == [b"0", b"1", b"2"]
    in_workers = all(name.startswith("ConsumeMessageThread_") for name in threads)
    assert in_workers == (kind == "def")
    mq.wait_consumed(group, topic)


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_each_message_succeeds_or_fails_alone(mq, kind):
    topic = mq.topic(queues=1)
    send(mq, topic, *(b"%d" % i for i in range(4)))
    tries = []

    def note(message):
        tries.append((message.body, message.reconsume_times))
        if message.body in (b"1", b"2") and not message.reconsume_times:
            if message.body == b"1":
                raise RuntimeError("not yet")
            return ConsumeResult.RECONSUME_LATER
        return None

    async def note_on_loop(message):
        return note(message)

    group = f"g_alone_{kind[:3]}"
    consumer = mqaio.PushConsumer(group, mq.namesrv, **ORDERS[True], **OPTIONS)
    consumer.on_message(topic)(note if kind == "def" else note_on_loop)
    async with consumer:
        await until_async(lambda: len(tries) == 6)
    assert tries == [(b"0", 0), (b"1", 0), (b"1", 1), (b"2", 0), (b"2", 1), (b"3", 0)]


async def test_a_failed_message_of_a_concurrent_consumer_comes_again(mq):
    topic = mq.topic(queues=1)
    send(mq, topic, b"0", b"1")
    consumer = mqaio.PushConsumer("g_later", mq.namesrv, **OPTIONS)
    tries = []

    async with consumer:

        @consumer.on_message(topic)
        async def handle(message):
            tries.append((message.body, message.reconsume_times))
            if message.body == b"0" and not message.reconsume_times:
                raise RuntimeError("not yet")

        await until_async(lambda: len(tries) == 3)
    assert sorted(tries) == [(b"0", 0), (b"0", 1), (b"1", 0)]


def test_what_is_no_function_is_refused(mq):
    consumer = PushConsumer("g_none", mq.namesrv)
    with pytest.raises(TypeError, match="handler must be callable, not str"):
        consumer.on_message("T")("no function")
    with pytest.raises(TypeError, match="handler must be callable, not int"):
        consumer.subscribe("T", "*", 5)


def test_the_program_for_type_checkers_runs():
    found = runpy.run_path(str(Path(__file__).parents[2] / "typing" / "handlers.py"))
    assert found["orders"].subscription() == {"T": "*", "U": "*"}

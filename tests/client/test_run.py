"""`run`: clients that serve until a signal, and stop in order."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

import mqclient
from mqclient import Message, Producer, PushConsumer, aio
from mqserver import Standalone
from tests.client.cluster import NAMESRV
from tests.waiting import until

DEADLINE = 60
PROGRAM = """
import asyncio, sys, threading, time
import mqclient
from mqclient import Message, aio

namesrv, topic, done_topic, face = sys.argv[1:]

def line(text):
    print(text, flush=True)

def blocking():
    producer = mqclient.Producer(namesrv)
    consumer = mqclient.PushConsumer("g_" + face, namesrv, consume_from="earliest")

    @consumer.on_message(topic)
    def handle(message):
        line("begun")
        time.sleep(0.5)  # the signal arrives meanwhile
        producer.send_async(Message(done_topic, message.body))  # the producer closes after this
        line("ended")

    mqclient.run(consumer, producer, timeout=30)

async def asynchronous():
    producer = aio.Producer(namesrv)
    consumer = aio.PushConsumer("g_" + face, namesrv, consume_from="earliest")

    @consumer.on_message(topic)
    async def handle(message):
        line("begun")
        await asyncio.sleep(0.5)
        await producer.send(Message(done_topic, message.body))
        line("ended")

    await aio.run(consumer, producer, timeout=30)

class Service:
    # What uvicorn runs: its own signal handlers, and the clients within the lifespan.
    async def __call__(self, scope, receive, send):
        producer = aio.Producer(namesrv)
        consumer = aio.PushConsumer("g_" + face, namesrv, consume_from="earliest")

        @consumer.on_message(topic)
        async def handle(message):
            line("begun")
            await asyncio.sleep(0.5)
            await producer.send(Message(done_topic, message.body))
            line("ended")

        await receive()
        async with producer, consumer:
            await send({"type": "lifespan.startup.complete"})
            await receive()
        line("lifespan over")
        await send({"type": "lifespan.shutdown.complete"})

if face == "blocking":
    blocking()
elif face == "asyncio":
    asyncio.run(asynchronous())
else:
    import uvicorn
    try:
        uvicorn.run(Service(), port=0, lifespan="on", log_level="warning")
    except KeyboardInterrupt:
        pass
line("over")
"""


@pytest.fixture(scope="module")
def mq() -> Iterator[Standalone]:
    with Standalone() as both:
        yield both


@pytest.mark.parametrize("face", ["blocking", "asyncio", "uvicorn"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_handlers_then_producers(mq: Standalone, face: str, number: int) -> None:
    topic, done = mq.topic(queues=1), mq.topic(queues=1)
    face_and_number = [mq.namesrv, topic, done, face]
    with Producer(mq.namesrv) as producer:
        producer.send(Message(topic, b"work"))
    program = subprocess.Popen(
        [sys.executable, "-W", "error", "-c", PROGRAM, *face_and_number],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    try:
        assert program.stdout.readline() == "begun\n"
        program.send_signal(number)
        output, errors = program.communicate(timeout=DEADLINE)
    finally:
        program.kill()
        program.communicate()
    assert output.splitlines()[0] == "ended", errors
    if face == "uvicorn":
        assert "lifespan over" in output
    else:
        assert (output.splitlines()[-1], program.returncode) == ("over", 0), errors
    assert [message.body for message in mq.messages(done)] == [b"work"]
    mq.wait_consumed(f"g_{face}", topic)


def test_closing_one_client_ends_the_others(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    consumers = [PushConsumer(f"g_end_{i}", mq.namesrv) for i in range(2)]
    for consumer in consumers:
        consumer.subscribe(topic, "*", lambda messages: None)
    producer = Producer(mq.namesrv)
    serving = threading.Thread(target=mqclient.run, args=(*consumers, producer))
    serving.start()
    assert until(lambda: [client.state for client in (*consumers, producer)] == ["running"] * 3)
    for consumer in consumers:
        consumer.wait_assigned()
    consumers[1].close()
    serving.join(DEADLINE)
    assert not serving.is_alive()
    assert [client.state for client in (*consumers, producer)] == ["closed"] * 3


async def test_run_without_a_client_says_so() -> None:
    with pytest.raises(ValueError, match="run needs a client"):
        mqclient.run()
    with pytest.raises(ValueError, match="run needs a client"):
        await aio.run()


def test_run_raises_what_the_start_raises() -> None:
    producer = Producer(NAMESRV)
    with pytest.raises(ValueError, match="would read nothing"):
        mqclient.run(producer, PushConsumer("g_none", "127.0.0.1:1"))
    assert producer.state == "closed"

"""Clients that start, end and are interrupted at awkward times, in programs of their own."""

from __future__ import annotations

import asyncio
import socket
import textwrap
import threading
from collections.abc import Iterator

import pytest

from mqclient import (
    ClosedError,
    Linger,
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
)
from mqclient import aio as mqaio
from mqserver.embedded.standalone import Standalone
from tests.client.cluster import NAME, NAMESRV, Cluster
from tests.client.programs import run
from tests.waiting import until, until_async


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """A NameServer that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=100) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


# --- close() from a signal handler

CLOSED_BY_A_SIGNAL = """
    import signal, sys, threading, time
    from mqclient import Connection, LitePullConsumer, Message, Producer, PushConsumer

    namesrv, topic = sys.argv[1:]
    patient = Connection(request_timeout=60)
    producer = Producer(namesrv, timeout=60, connection=patient)
    push = PushConsumer("push_" + topic, namesrv, connection=patient)
    lite = LitePullConsumer("lite_" + topic, namesrv, connection=patient)
    main, pause = threading.main_thread().ident, threading.Event()

    def handle(_messages, _context):
        pause.wait(3)

    def close(*_):
        began = time.monotonic()
        try:
            {client}.close(timeout=1)
        finally:
            print("closed" if time.monotonic() - began < 4 else "late", flush=True)

    def waits():
        frame = sys._current_frames()[main]
        while frame and frame.f_code.co_name not in ("wait", "block_on"):
            frame = frame.f_back
        return frame and "threading" not in frame.f_code.co_filename

    def tell():
        while not waits():
            pause.wait(0.01)
        signal.pthread_kill(main, signal.SIGUSR1)

    signal.signal(signal.SIGUSR1, close)
    {setup}
    threading.Thread(target=tell, daemon=True).start()
    try:
        {call}
    except Exception as error:
        print(type(error).__name__)
    print("over")
"""
STATES = {
    # name: client, setup, the call during which the signal arrives
    "starting": ("push", "push.subscribe(topic, '*', handle)", "push.start()"),
    "starting_lite": ("lite", "lite.subscribe(topic)", "lite.start()"),
    "sending": ("producer", "producer.start()", "producer.send(Message(topic, b'x'))"),
    "polling": ("lite", "lite.subscribe(topic); lite.start()", "lite.poll(timeout=60)"),
    "closing": (
        "push",
        "push.subscribe(topic, '*', handle); push.start(); push.wait_assigned(); "
        "Producer(namesrv).__enter__().send(Message(topic, b'x')); pause.wait(1)",
        "push.close(timeout=2)",
    ),
}


@pytest.mark.parametrize("state", STATES)
def test_close_from_a_signal_handler_ends_in_every_state(
    mq: Standalone, silent: str, state: str
) -> None:
    client, setup, call = STATES[state]
    text = textwrap.dedent(CLOSED_BY_A_SIGNAL).format(client=client, setup=setup, call=call)
    asks_nobody = state in ("polling", "closing")
    code, out, _ = run(text, mq.namesrv if asks_nobody else silent, mq.topic())
    lines = out.split()
    assert (code, lines[0], lines[-1]) == (0, "closed", "over")


def test_two_threads_may_start_a_client_at_once() -> None:
    cluster = Cluster(T=1)
    producer = Producer(NAMESRV, transport=cluster.transport)
    barrier, sent = threading.Barrier(8), []

    def work() -> None:
        barrier.wait()
        producer.start()
        sent.append(producer.send(Message("T", b"x")))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    producer.close()
    assert len(sent) == 8


async def test_two_tasks_may_start_a_consumer_at_once() -> None:
    consumer = mqaio.LitePullConsumer("g", NAMESRV, transport=Cluster(T=1).transport)
    consumer.subscribe("T")
    await asyncio.gather(consumer.start(), consumer.start())
    assert len(await consumer.wait_assigned()) == 1
    await consumer.close()


@pytest.mark.parametrize("kind", ["producer", "push", "lite"])
def test_an_aio_client_on_a_second_loop_is_said(kind: str) -> None:
    transport = Cluster(T=1).transport
    clients = {
        "producer": lambda: mqaio.Producer(NAMESRV, transport=transport, linger=Linger(0.01)),
        "push": lambda: mqaio.PushConsumer("g", NAMESRV, transport=transport),
        "lite": lambda: mqaio.LitePullConsumer("g", NAMESRV, transport=transport),
    }
    client = clients[kind]()
    if kind == "push":
        client.subscribe("T", "*", print)
    uses = {
        "producer": lambda: client.send(Message("T", b"x")),
        "push": lambda: client.wait_assigned(),
        "lite": lambda: client.poll(),
    }

    async def second() -> None:
        for use in (uses[kind], client.close, client.start):
            with pytest.raises(ClosedError, match="on another event loop"):
                await use()

    with asyncio.Runner() as first:
        first.run(client.start())
        asyncio.run(second())
        first.run(client.close())


# --- what handlers raise

ENDS = [SystemExit(3), KeyboardInterrupt(), GeneratorExit()]


@pytest.mark.parametrize("error", ENDS, ids=repr)
def test_an_async_handler_that_exits_ends_no_client(error: BaseException) -> None:
    cluster, seen = Cluster(T=1), []
    cluster.put("T", b"1")

    async def handle(messages, _context) -> None:
        seen.append(messages[0].body)
        raise error

    options = {"transport": cluster.transport, "consume_from": "earliest"}
    with PushConsumer("g", NAMESRV, **options) as consumer:
        consumer.subscribe("T", "*", handle)
        assert until(lambda: len(cluster.given_back) == 1)
        cluster.put("T", b"2")
        assert until(lambda: len(cluster.given_back) == 2)
        with Producer(NAMESRV, transport=Cluster(U=1).transport) as producer:
            assert producer.send(Message("U", b"x")).queue_offset == 0
    assert seen == [b"1", b"2"]


@pytest.mark.parametrize("error", ENDS, ids=repr)
def test_an_aio_handler_that_exits_ends_no_client(error: BaseException) -> None:
    async def main() -> None:
        cluster = Cluster(T=1)
        cluster.put("T", b"1")

        async def handle(_messages, _context) -> None:
            raise error

        options = {"transport": cluster.transport, "consume_from": "earliest"}
        async with mqaio.PushConsumer("g", NAMESRV, **options) as consumer:
            consumer.subscribe("T", "*", handle)
            await until_async(lambda: len(cluster.given_back) == 1)
            cluster.put("T", b"2")
            await until_async(lambda: len(cluster.given_back) == 2)

    asyncio.run(main())


def test_a_selector_that_exits_reaches_its_caller_only() -> None:
    with (
        Producer(NAMESRV, transport=Cluster(T=1).transport) as first,
        Producer(NAMESRV, transport=Cluster(U=1).transport) as second,
    ):
        with pytest.raises(SystemExit):
            first.send(Message("T", b"x"), selector=lambda *_: exit(3))
        for producer, topic in ((first, "T"), (second, "U")):
            assert producer.send(Message(topic, b"x")).queue_offset == 0


def test_an_async_listener_of_a_blocking_consumer_runs() -> None:
    told: list[list[MessageQueue]] = []

    async def listen(gained: list[MessageQueue]) -> None:
        await asyncio.sleep(0)
        told.append(gained)

    with LitePullConsumer("g", NAMESRV, transport=Cluster(T=1).transport) as consumer:
        consumer.on_rebalance(assigned=listen)
        consumer.subscribe("T")
        assert until(lambda: told)
    assert told[0] == [MessageQueue("T", NAME, 0)]


# --- interrupted waits

INTERRUPTED_POLLS = """
    import signal, sys
    from mqclient import LitePullConsumer

    namesrv, topic, ask = sys.argv[1:]
    bodies, interrupts, asked = [], 0, 0

    def interrupt(_number, frame):
        while frame and frame.f_code.co_name != "wait":
            frame = frame.f_back
        if frame:  # else the call has returned, and only the program could lose a message
            raise KeyboardInterrupt

    with LitePullConsumer("lite_" + topic, namesrv, consume_from="earliest") as consumer:
        consumer.subscribe(topic)
        consumer.wait_assigned()
        signal.signal(signal.SIGALRM, interrupt)
        while len(bodies) < 1500:
            asked += 1
            signal.setitimer(signal.ITIMER_REAL, 0.00003 * (1 + asked % 30))
            try:
                got = consumer.poll(2, 1) if ask == "poll" else [next(consumer)]
                signal.setitimer(signal.ITIMER_REAL, 0)
                bodies += [int(message.body) for message in got]
            except KeyboardInterrupt:
                interrupts += 1
        signal.setitimer(signal.ITIMER_REAL, 0)
        bodies += [int(message.body) for message in consumer.poll(7, 0.1)]
    print(len(bodies), len({*bodies}), interrupts)
"""


@pytest.mark.parametrize("ask", ["poll", "next"])
def test_ctrl_c_in_a_poll_loses_no_message(mq: Standalone, ask: str) -> None:
    topic = mq.topic()
    with Producer(mq.namesrv) as producer:
        for start in range(0, 1500, 100):
            producer.send([Message(topic, b"%d" % n) for n in range(start, start + 100)])
    code, out, errors = run(INTERRUPTED_POLLS, mq.namesrv, topic, ask)
    assert code == 0, errors
    received, different, interrupts = out.split()
    assert different == "1500"
    assert int(interrupts) > 0
    assert received == "1500"


# --- clients that are never closed

UNCLOSED = """
    import sys
    from mqclient import Linger, Message, Producer

    namesrv, topic, how = sys.argv[1:]
    producer = Producer(namesrv, linger=Linger(0.5) if "linger" in how else None)
    producer.start()
    for number in range(300):
        producer.send_async(Message(topic, b"%d" % number))
    if "garbage" in how:
        del producer
"""


@pytest.mark.parametrize("how", ["linger", "plain", "linger-garbage", "plain-garbage"])
def test_what_an_unclosed_producer_accepted_is_sent(mq: Standalone, how: str) -> None:
    topic = mq.topic()
    code, _, errors = run(UNCLOSED, mq.namesrv, topic, how)
    assert code == 0, errors
    assert "unclosed <Producer" in errors or "was not closed" in errors
    with LitePullConsumer(None, mq.namesrv) as consumer:
        consumer.assign(consumer.queues(topic))
        consumer.wait_assigned()
        for queue in consumer.assignment():
            consumer.seek_to_begin(queue)
        bodies: set[bytes] = set()
        assert until(lambda: bodies.update(m.body for m in consumer.poll()) or len(bodies) == 300)


UNCLOSED_AT_A_SILENT_SERVER = """
    import sys
    from mqclient import Connection, Message, Producer

    producer = Producer(sys.argv[1], timeout=300, connection=Connection(request_timeout=300))
    producer.start()
    producer.send_async(Message("T", b"x"))
"""


def test_an_unclosed_producer_delays_the_exit_within_a_bound(silent: str) -> None:
    code, _, errors = run(UNCLOSED_AT_A_SILENT_SERVER, silent)
    assert code == 0
    assert "was not closed" in errors


UNCLOSED_CONSUMERS = """
    import sys, threading
    from mqclient import LitePullConsumer, PushConsumer

    namesrv, topic, kind = sys.argv[1:]
    if kind == "lite":
        consumer = LitePullConsumer("g_unclosed_lite", namesrv, consume_from="earliest")
        consumer.subscribe(topic)
        consumer.start()
        print(len({next(consumer).body for _ in range(10)}))  # the last one is in hand
        threading.Thread(target=consumer.poll, args=(1, 3600), daemon=True).start()
    else:
        started, go_on = threading.Event(), threading.Event()

        def handle(messages, context):
            started.set()
            assert go_on.wait(30)

        consumer = PushConsumer(
            "g_unclosed_push", namesrv, consume_from="earliest", commit_interval=600
        )
        consumer.subscribe(topic, "*", handle)
        consumer.start()
        assert started.wait(30)
        threading.Timer(0.2, go_on.set).start()
        print(10)
"""


@pytest.mark.parametrize(("kind", "least"), [("lite", 9), ("push", 1)])
def test_an_unclosed_consumer_commits_what_was_handled(
    mq: Standalone, kind: str, least: int
) -> None:
    topic = mq.topic(queues=1)
    with Producer(mq.namesrv) as producer:
        producer.send([Message(topic, b"%d" % number) for number in range(10)])
    code, out, errors = run(UNCLOSED_CONSUMERS, mq.namesrv, topic, kind)
    assert (code, out.split()) == (0, ["10"]), errors
    assert "g_unclosed" in errors and "was not closed" in errors
    with LitePullConsumer(f"g_unclosed_{kind}", mq.namesrv) as consumer:
        (queue,) = consumer.queues(topic)
        assert (consumer.committed(queue) or 0) >= least


UNCLOSED_WITH_A_STUCK_HANDLER = """
    import sys, threading
    from mqclient import PushConsumer

    started = threading.Event()

    def handle(messages, context):
        started.set()
        threading.Event().wait()

    consumer = PushConsumer("g_stuck", sys.argv[1], consume_from="earliest")
    consumer.subscribe(sys.argv[2], "*", handle)
    consumer.start()
    assert started.wait(30)
"""


def test_a_stuck_handler_delays_the_exit_within_a_bound(mq: Standalone) -> None:
    topic = mq.topic(queues=1)
    with Producer(mq.namesrv) as producer:
        producer.send(Message(topic, b"x"))
    code, _, errors = run(UNCLOSED_WITH_A_STUCK_HANDLER, mq.namesrv, topic)
    assert code == 0, errors
    assert "was not closed" in errors
    assert "handlers still run after 5 s" in errors

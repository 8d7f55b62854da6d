"""Middleware around sends and handlers: three examples, and the rules of every one."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any

import pytest

from mqclient import (
    BrokerError,
    ConsumeContext,
    ConsumeResult,
    Message,
    Orderly,
    Producer,
    PushConsumer,
    ReceivedMessage,
    TransactionProducer,
    aio,
)
from mqclient.middleware import SendContext
from mqcommon.wire import Frame
from mqserver import Standalone
from tests.client.cluster import NAMESRV, Cluster
from tests.waiting import until_async

Sending = Generator[None, Any, None]
DEADLINE = 60


@pytest.fixture(scope="module")
def mq() -> Iterator[Standalone]:
    with Standalone(settings={"messageDelayLevel": "1s"}) as both:
        yield both


# --- example: the context of log lines

order_id = contextvars.ContextVar("order_id", default="-")


def with_order_id(messages: list[ReceivedMessage], context: ConsumeContext) -> Sending:
    """Log lines of the handler name the order."""
    token = order_id.set(messages[0].keys[0])
    try:
        yield
    finally:
        order_id.reset(token)


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_log_lines_of_handlers_have_a_context(mq: Standalone, kind: str) -> None:
    topic, done, seen = mq.topic(queues=1), threading.Event(), []
    consumer = PushConsumer(
        f"g_logs_{kind[:3]}", mq.namesrv, consume_from="earliest", middleware=[with_order_id]
    )

    def handle(message: ReceivedMessage) -> None:
        seen.append(order_id.get())
        if len(seen) == 2:
            done.set()

    async def handle_async(message: ReceivedMessage) -> None:
        await asyncio.sleep(0)
        handle(message)

    consumer.on_message(topic)(handle if kind == "def" else handle_async)
    with Producer(mq.namesrv) as producer, consumer:
        producer.send([Message(topic, b"x", keys=key) for key in ("order-1", "order-2")])
        assert done.wait(DEADLINE)
    assert sorted(seen) == ["order-1", "order-2"]
    assert order_id.get() == "-"


# --- example: a trace of one's own

trace_id = contextvars.ContextVar("trace_id", default="")


class Tracing:
    """Carries a trace id from the sender to the handler, and notes what happened."""

    def __init__(self) -> None:
        self.spans: list[tuple[str, str, str]] = []

    def send(self, message: Message, context: SendContext) -> Sending:
        message.put_property("trace", trace_id.get())
        try:
            result = yield
        except Exception as error:
            self.spans.append((context.operation, trace_id.get(), type(error).__name__))
            raise
        self.spans.append((context.operation, trace_id.get(), result and result.status.name))

    def handle(self, messages: list[ReceivedMessage], context: ConsumeContext) -> Sending:
        token = trace_id.set(messages[0].properties["trace"])
        yield
        self.spans.append(("handle", trace_id.get(), messages[0].topic))
        trace_id.reset(token)


def test_a_trace_goes_from_the_sender_to_the_handler(mq: Standalone) -> None:
    """`send`, `send_async` and `send_oneway` see the context variables of their caller."""
    topic, tracing, done = mq.topic(queues=1), Tracing(), threading.Event()
    consumer = PushConsumer(
        "g_trace", mq.namesrv, consume_from="earliest", middleware=[tracing.handle]
    )

    @consumer.on_message(topic)
    def handle(message: ReceivedMessage) -> None:
        assert trace_id.get() == message.body.decode()
        if message.body == b"t-4":
            done.set()

    with Producer(mq.namesrv, middleware=[tracing.send]) as producer:
        for number, send in enumerate((producer.send, producer.send_async, producer.send_oneway)):
            trace_id.set(f"t-{number}")
            send(Message(topic, b"t-%d" % number))
            producer.flush()
        trace_id.set("t-3")
        with pytest.raises(ValueError, match="empty"):
            producer.send(Message(topic, b""))
        trace_id.set("t-4")
        producer.send(Message(topic, b"t-4"))
    trace_id.set("")
    with consumer:
        assert done.wait(DEADLINE)
    assert tracing.spans[:5] == [
        ("send", "t-0", "SEND_OK"),
        ("send", "t-1", "SEND_OK"),
        ("oneway", "t-2", None),
        ("send", "t-3", "ValueError"),
        ("send", "t-4", "SEND_OK"),
    ]
    assert {span[1] for span in tracing.spans[5:]} == {"t-0", "t-1", "t-2", "t-4"}


# --- example: each message once, by a store of one's own


class Once:
    """Leaves out messages that were handled before. store: of the program, for example a table."""

    def __init__(self, store: set[str]) -> None:
        self._store = store

    def __call__(
        self, messages: list[ReceivedMessage], context: ConsumeContext
    ) -> Generator[None, Any, None]:
        if messages[0].msg_id in self._store:
            return  # without a yield: the handler is not called, and the message is acknowledged
        result = yield
        if result in (None, ConsumeResult.SUCCESS):
            self._store.add(messages[0].msg_id)


def once_async(store: set[str]) -> Any:
    async def once(
        messages: list[ReceivedMessage], context: ConsumeContext
    ) -> AsyncGenerator[None, Any]:
        await asyncio.sleep(0)
        if messages[0].msg_id not in store:
            yield
            await asyncio.sleep(0)
            store.add(messages[0].msg_id)

    return once


@pytest.mark.parametrize("kind", ["def", "async def"])
async def test_a_message_is_handled_once(mq: Standalone, kind: str) -> None:
    """The same id twice, and one that fails at first."""
    topic, store, seen = mq.topic(queues=1), set[str](), []
    async with aio.Producer(mq.namesrv) as producer:
        for body in (b"twice", b"twice", b"fails", b"last"):
            message = Message(topic, body)
            message.properties["UNIQ_KEY"] = body.decode()
            await producer.send(message)
    consumer = aio.PushConsumer(
        f"g_once_{kind[:3]}",
        mq.namesrv,
        consume_from="earliest",
        orderly=Orderly(retry_delay=0.01),
        middleware=[Once(store) if kind == "def" else once_async(store)],
    )

    def handle(message: ReceivedMessage) -> None:
        seen.append(message.body)
        if seen.count(b"fails") == 1 and message.body == b"fails":
            raise RuntimeError("not yet")

    async def handle_async(message: ReceivedMessage) -> None:
        handle(message)

    consumer.on_message(topic)(handle if kind == "def" else handle_async)
    async with consumer:
        await until_async(lambda: "last" in store)
    assert seen == [b"twice", b"fails", b"fails", b"last"]
    assert store == {"twice", "fails", "last"}


# --- the rules


def noting(name: str, log: list[str]) -> Any:
    def middleware(_what: object, _context: object) -> Sending:
        log.append(f"{name} begins")
        try:
            yield
        finally:
            log.append(f"{name} ends")

    return middleware


async def test_the_first_middleware_is_outermost() -> None:
    cluster, log = Cluster(T=1), list[str]()
    both = [noting("a", log), noting("b", log)]
    async with aio.Producer(NAMESRV, transport=cluster.transport, middleware=both) as producer:
        await producer.send(Message("T", b"x"))
    assert log == ["a begins", "b begins", "b ends", "a ends"]
    with Producer(NAMESRV, transport=cluster.transport, middleware=both) as blocking:
        for send in (blocking.send, blocking.send_async, blocking.send_oneway):
            log.clear()
            send(Message("T", b"x"))
            blocking.flush()
            assert log == ["a begins", "b begins", "b ends", "a ends"]


async def test_an_error_may_be_replaced_or_ended() -> None:
    cluster = Cluster(T=1)
    cluster.transport.scripts[310] = lambda _a, _r: Frame(13, remark="illegal")

    def replaced(_message: object, _context: object) -> Sending:
        try:
            yield
        except BrokerError as error:
            raise LookupError("of the program") from error

    def ended(_message: object, _context: object) -> Generator[None, Any, str]:
        try:
            yield
        except BrokerError:
            return "stored elsewhere"
        return "never"

    for face in (Producer, aio.Producer):
        for one in (replaced, ended):
            producer = face(NAMESRV, transport=cluster.transport, middleware=[one])
            calls = [outcome_of(producer, "send")]
            if face is Producer:
                calls.append(outcome_of(producer, "send_async"))
            for call in calls:
                if one is ended:
                    assert await call == "stored elsewhere"
                else:
                    with pytest.raises(LookupError, match="of the program"):
                        await call


async def outcome_of(producer: Any, method: str) -> Any:
    """The outcome of a send, whatever the face."""
    if isinstance(producer, aio.Producer):
        async with producer:
            return await producer.send(Message("T", b"x"))

    def work() -> Any:
        with Producer(
            NAMESRV,
            transport=producer._async.settings.transport,
            middleware=producer._async.settings.middleware,
        ) as blocking:
            found = getattr(blocking, method)(Message("T", b"x"))
            return found.result(DEADLINE) if method == "send_async" else found

    return await asyncio.to_thread(work)


async def test_a_send_may_be_left_out() -> None:
    cluster = Cluster(T=1)

    def none(_message: object, _context: object) -> Generator[None, Any, str]:
        if cluster:
            return "not sent"
        yield

    async with aio.Producer(NAMESRV, transport=cluster.transport, middleware=[none]) as producer:
        assert await producer.send(Message("T", b"x")) == "not sent"
    with Producer(NAMESRV, transport=cluster.transport, middleware=[none]) as blocking:
        assert blocking.send_async(Message("T", b"x")).result(DEADLINE) == "not sent"
    assert not cluster.stored


def test_a_cancelled_future_ends_its_middleware(mq: Standalone) -> None:
    log = list[str]()
    with Producer(mq.namesrv, middleware=[noting("a", log)]) as producer:
        future = producer.send_async(Message(mq.topic(), b"x"))
        future.cancel()
        producer.flush()
    assert log == ["a begins", "a ends"]


def test_half_messages_and_requests_have_middleware(mq: Standalone) -> None:
    seen = []

    def note(message: Message, context: SendContext) -> Sending:
        result = yield
        seen.append((context.operation, type(result).__name__))

    options = {"check": lambda _message: None, "middleware": [note]}
    producer = TransactionProducer("g_half", mq.namesrv, **options)
    with producer, producer.transaction(Message(mq.topic(), b"half")) as tx:
        tx.commit()
    assert seen == [("transaction", "SendResult")]


async def test_a_handler_may_be_retried_by_a_middleware(mq: Standalone) -> None:
    """What a middleware returns is the handler's result."""
    topic, tries = mq.topic(queues=1), []

    def later(messages: list[ReceivedMessage], _context: ConsumeContext) -> Any:
        yield
        return None if messages[0].reconsume_times else ConsumeResult.RECONSUME_LATER

    consumer = aio.PushConsumer(
        "g_later", mq.namesrv, consume_from="earliest",
        orderly=Orderly(retry_delay=0.01), middleware=[later],
    )  # fmt: skip
    consumer.on_message(topic)(lambda message: tries.append(message.reconsume_times))
    async with consumer, aio.Producer(mq.namesrv) as producer:
        await producer.send(Message(topic, b"x"))
        await until_async(lambda: len(tries) == 2)


def plain(_what: object, _context: object) -> Sending:
    yield


async def awaiting(_what: object, _context: object) -> AsyncGenerator[None, Any]:
    yield


def no_generator(_what: object, _context: object) -> None: ...


def of_one_argument(_what: object) -> Sending:
    yield


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: Producer(middleware=plain), "must be a list of generator functions, not <func"),
        (lambda: aio.Producer(middleware=[no_generator]), "must be a generator function: it yiel"),
        (lambda: PushConsumer("g", middleware=[5]), "middleware must be callable, not int"),
        (
            lambda: PushConsumer("g", middleware=[of_one_argument]),
            r"cannot be called with \(messages, context\)",
        ),
        (
            lambda: Producer(middleware=[awaiting]),
            "middleware awaiting is an async generator, and Producer is no `async def`",
        ),
        (
            lambda: PushConsumer("g", middleware=[awaiting]).subscribe("T", "*", lambda _m: None),
            "middleware awaiting is an async generator, and .* is no `async def`",
        ),
    ],
)
def test_what_is_no_middleware_is_refused(make: Any, why: str) -> None:
    with pytest.raises(TypeError, match=why):
        make()


async def test_a_second_yield_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    def twice(_what: object, _context: object) -> Sending:
        yield
        yield

    async def twice_awaited(_what: object, _context: object) -> AsyncGenerator[None, Any]:
        yield
        yield

    cluster = Cluster(T=1)
    caplog.set_level(logging.ERROR)
    for one in (twice, twice_awaited):
        options = {"transport": cluster.transport, "middleware": [one]}
        async with aio.Producer(NAMESRV, **options) as producer:
            with pytest.raises(RuntimeError, match=r"twice\w* yielded twice; it may yield once"):
                await producer.send(Message("T", b"x"))

"""`mqclient.otel` with the SDK's exporter in memory: span names, attributes and parents."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest

pytest.importorskip("opentelemetry.sdk")

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.semconv._incubating.attributes import messaging_attributes as names
from opentelemetry.trace import SpanKind, StatusCode, format_span_id, format_trace_id

from mqclient import (
    BrokerError,
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    TransactionProducer,
    TransactionState,
)
from mqclient import aio as mqaio
from mqclient.integrations.otel import instrument, processing
from mqserver.embedded.standalone import Standalone
from tests.missing_packages import hide
from tests.waiting import until

MESSAGING = {value for value in vars(names).values() if isinstance(value, str)}


class Spans:
    """The spans that ended."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.tracer = self.provider.get_tracer("tests")

    def named(self, name: str, count: int = 1) -> list[ReadableSpan]:
        def found() -> list[ReadableSpan]:
            return [span for span in self._exporter.get_finished_spans() if span.name == name]

        assert until(lambda: len(found()) >= count), [
            s.name for s in self._exporter.get_finished_spans()
        ]
        assert len(found()) == count
        for span in found():
            own = {key for key in attributes(span) if key != "error.type"}
            assert own <= MESSAGING, "names are those of the conventions"
        return found()

    def one(self, name: str) -> ReadableSpan:
        (span,) = self.named(name)
        return span

    def ended(self) -> tuple[ReadableSpan, ...]:
        return self._exporter.get_finished_spans()


@pytest.fixture
def spans() -> Spans:
    return Spans()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def traceparent(span: ReadableSpan) -> str:
    assert span.context is not None
    where = span.context
    ids = f"{format_trace_id(where.trace_id)}-{format_span_id(where.span_id)}"
    return f"00-{ids}-{where.trace_flags:02x}"


def links(span: ReadableSpan) -> list[int]:
    return [link.context.span_id for link in span.links]


def test_a_send_and_its_handler_are_one_trace(mq: Standalone, spans: Spans) -> None:
    topic = mq.topic("OtelOne", queues=1)
    done: list[str] = []

    def handle(messages, _context) -> None:  # type: ignore[no-untyped-def]
        with spans.tracer.start_as_current_span("inside"):
            done.append(messages[0].msg_id)

    with instrument(Producer(mq.namesrv), spans.provider) as producer:
        with spans.tracer.start_as_current_span("request") as request:
            result = producer.send(Message(topic, b"hello", tags="A", keys=["k1", "k2"]))
        consumer = PushConsumer("otel_one", mq.namesrv, consume_from="earliest")
        instrument(consumer, spans.provider)
        consumer.subscribe(topic, "*", handle)
        with consumer:
            process = spans.one("process OtelOne")
        send = spans.one("send OtelOne")
    assert attributes(send) == {
        "messaging.system": "rocketmq",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.client.id": producer.client_id,
        "messaging.message.id": result.msg_id,
        "messaging.message.body.size": 5,
        "messaging.rocketmq.message.tag": "A",
        "messaging.rocketmq.message.keys": ("k1", "k2"),
    }
    assert (send.kind, process.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert send.parent is not None
    assert send.parent.span_id == request.get_span_context().span_id
    (stored,) = mq.messages(topic)
    assert stored.properties["traceparent"] == traceparent(send)
    assert send.context is not None
    assert process.parent is not None
    assert process.parent.span_id == send.context.span_id
    assert attributes(process)["messaging.consumer.group.name"] == "otel_one"
    assert attributes(process)["messaging.rocketmq.consumption_model"] == "clustering"
    assert attributes(process)["messaging.client.id"] == consumer.client_id
    assert attributes(process)["messaging.message.id"] == result.msg_id
    assert attributes(process)["messaging.operation.type"] == "process"
    inside = spans.one("inside")
    assert inside.parent is not None
    assert process.context is not None
    assert inside.parent.span_id == process.context.span_id
    assert done == [result.msg_id]


def test_batches_and_polls_are_linked(mq: Standalone, spans: Spans) -> None:
    topic = mq.topic("OtelMany", queues=1)
    with instrument(Producer(mq.namesrv), spans.provider) as producer:
        producer.send([Message(topic, b"%d" % i) for i in range(3)])
        future = producer.send_async(Message(topic, b"async", delay_level=0))
        assert future.result(60).msg_id
        producer.send_oneway(Message(topic, b"oneway"))
    batch, single, _ = spans.named("send OtelMany", 3)
    assert attributes(batch)["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in attributes(batch)
    assert attributes(single)["messaging.message.id"] == future.result().msg_id
    assert until(lambda: len(mq.messages(topic)) == 5)
    consumer = instrument(
        LitePullConsumer(None, mq.namesrv, consume_from="earliest"), spans.provider
    )
    with consumer:
        consumer.assign(consumer.queues(topic))
        consumer.seek_to_begin(consumer.queues(topic)[0])
        found: list[Any] = []
        while len(found) < 5:
            found += consumer.poll(timeout=10.0)
        before = len(spans.ended())
        assert consumer.poll(timeout=0.01) == []
        assert len(spans.ended()) == before, "an empty poll makes no span"
        with processing(found[0], tracer_provider=spans.provider):
            pass
    assert batch.context is not None
    linked = [span_id for span in _receives(spans) for span_id in links(span)]
    assert linked[:3] == [batch.context.span_id] * 3
    assert len(linked) == 5
    process = spans.one("process OtelMany")
    assert process.parent is not None
    assert process.parent.span_id == batch.context.span_id


def _receives(spans: Spans) -> list[ReadableSpan]:
    found = [s for s in spans.ended() if s.name == "receive OtelMany"]
    assert all(span.kind == SpanKind.CLIENT for span in found)
    return found


def test_failures_are_errors_of_the_span(mq: Standalone, spans: Spans) -> None:
    topic = mq.topic("OtelFails", queues=1)
    called: list[int] = []

    def handle(messages, _context) -> None:  # type: ignore[no-untyped-def]
        called.append(len(messages))
        if len(called) == 1:
            raise KeyError("no such order")

    with instrument(Producer(mq.namesrv), spans.provider) as producer:
        with pytest.raises(BrokerError):
            producer.send(Message(topic, b"x"), queue=MessageQueue(topic, "broker-a", 99))
        failed = spans.one("send OtelFails")
        assert failed.status.status_code is StatusCode.ERROR
        assert attributes(failed)["error.type"] == "mqclient.errors.BrokerError"
        assert failed.events[0].name == "exception"
        producer.send(Message(topic, b"y"))
        consumer = instrument(
            PushConsumer("otel_fails", mq.namesrv, consume_from="earliest"), spans.provider
        )
        consumer.subscribe(topic, "*", handle)
        with consumer:
            process = spans.named("process OtelFails")[0]
    assert process.status.status_code is StatusCode.ERROR
    assert attributes(process)["error.type"] == "builtins.KeyError"


async def test_the_asyncio_face(mq: Standalone, spans: Spans) -> None:
    topic = mq.topic("OtelAio", queues=1)
    handled = asyncio.Event()

    async def handle(_messages, _context) -> None:  # type: ignore[no-untyped-def]
        handled.set()

    async with instrument(mqaio.Producer(mq.namesrv), spans.provider) as producer:
        await producer.send(Message(topic, b"x"))
    consumer = instrument(
        mqaio.PushConsumer("otel_aio", mq.namesrv, consume_from="earliest"), spans.provider
    )
    consumer.subscribe(topic, "*", handle)
    async with consumer:
        await asyncio.wait_for(handled.wait(), 60)
    send, process = spans.one("send OtelAio"), spans.one("process OtelAio")
    assert process.parent is not None
    assert send.context is not None
    assert process.parent.span_id == send.context.span_id


def test_a_transaction_has_a_context_too(mq: Standalone, spans: Spans) -> None:
    topic = mq.topic("OtelTx", queues=1)
    made = TransactionProducer("otel_tx", mq.namesrv, check=lambda _m: TransactionState.COMMIT)
    with instrument(made, spans.provider), made.transaction(Message(topic, b"x")) as transaction:
        transaction.commit()
    create = spans.one("create OtelTx")
    assert attributes(create)["messaging.rocketmq.message.type"] == "transaction"
    assert until(lambda: len(mq.messages(topic)) == 1)
    assert mq.messages(topic)[0].properties["traceparent"] == traceparent(create)


def test_nothing_else_can_be_instrumented() -> None:
    with pytest.raises(TypeError, match="not str"):
        instrument("a client")


def test_clients_do_not_load_opentelemetry() -> None:
    script = (
        "import sys, mqclient, mqclient.aio; mqclient.Producer; mqclient.PushConsumer\n"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_without_opentelemetry_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mqclient.integrations.otel")
    hide(monkeypatch, "opentelemetry")
    with pytest.raises(ImportError, match=r"pip install 'mqstack\[otel\]'"):
        import_module("mqclient.integrations.otel")


@pytest.mark.parametrize("kind", [PushConsumer, mqaio.PushConsumer])
def test_every_subscription_has_spans(mq: Standalone, spans: Spans, kind: Any) -> None:
    name = "Otel" + kind.__module__.rpartition(".")[2].title()
    before, function, after = (mq.topic(f"{name}{n}", queues=1) for n in range(3))
    consumer = kind(f"{name}_group", mq.namesrv, consume_from="earliest")
    consumer.subscribe(before, "*", lambda messages, context: None)
    consumer.on_message(function)(lambda message: None)
    instrument(consumer, spans.provider)

    @consumer.on_message(after)
    async def handle(message: Any) -> None:
        with spans.tracer.start_as_current_span("inside"):
            pass

    with Producer(mq.namesrv) as producer:
        for topic in (before, function, after):
            producer.send(Message(topic, b"x"))

    def check() -> None:
        for topic in (before, function, after):
            spans.one(f"process {topic}")
        outer = spans.one(f"process {after}").context
        (inside,) = [span for span in spans.ended() if span.name == "inside"]
        assert inside.parent is not None
        assert outer is not None
        assert inside.parent.span_id == outer.span_id

    async def run() -> None:
        async with consumer:
            await asyncio.to_thread(check)

    if kind is PushConsumer:
        with consumer:
            check()
    else:
        asyncio.run(run())

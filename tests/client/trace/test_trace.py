"""Message trace: the records of sends, handlers and transactions, and how they are sent."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest

from mqclient import (
    ConsumeResult,
    LitePullConsumer,
    Message,
    Producer,
    PushConsumer,
    Retry,
    SendResult,
    Trace,
    TransactionProducer,
    TransactionState,
    aio,
)
from mqclient.engine.client import Client
from mqclient.settings.clients import ConnectionOptions
from mqclient.trace.dispatcher import BACKLOG_MAX, TraceDispatcher
from mqclient.trace.records import TraceRecord
from mqcommon.wire import Frame, RequestCode
from tests.client.cluster import NAMESRV, Cluster


def records(mq, topic: str) -> Iterator[list[str]]:
    """The records in a trace topic as fields, in their order, without end."""
    with LitePullConsumer(f"reads_{topic}", mq.namesrv, consume_from="earliest") as reader:
        reader.subscribe(topic)
        while messages := reader.poll(1, timeout=15):
            (message,) = messages
            *texts, rest = message.body.decode().split("\x02")
            assert rest == ""
            for text in texts:
                fields = text.split("\x01")
                named = {*message.keys}
                id_at = {"Pub": 5, "SubBefore": 5, "SubAfter": 2, "EndTransaction": 5}
                assert fields[id_at[fields[0]]] in named
                yield fields
    raise AssertionError("no further record came within 15 s")


@pytest.mark.parametrize("asynchronous", [False, True])
async def test_a_send_has_a_record(mq, asynchronous) -> None:
    topic, traces = mq.topic(), mq.topic()
    options = {"trace": Trace(traces), "group": "traced"}
    message = Message(topic, b"12345", tags="A", keys=["k1", "k2"])
    if asynchronous:
        async with aio.Producer(mq.namesrv, **options) as sender:
            sent = await sender.send(message)
            delayed = await sender.send(Message(topic, b"late", delay_level=1))
    else:
        with Producer(mq.namesrv, **options) as sender:
            sent = sender.send(message)
            delayed = sender.send(Message(topic, b"late", delay_level=1), order_key="k")
    found = records(mq, traces)
    first, second = sorted((next(found), next(found)), key=lambda fields: fields[7] == "null")
    broker = first[8]
    assert re.fullmatch(r"[\d.]+:\d+", broker)
    assert re.fullmatch(r"\d{13}", first[1])
    assert 0 <= int(first[10]) < 60_000
    assert first == [
        "Pub", first[1], "DefaultRegion", "traced", topic, sent.msg_id, "A", "k1 k2", broker,
        "5", first[10], "0", sent.offset_msg_id, "true",
    ]  # fmt: skip
    assert second[4:10] == [topic, delayed.msg_id, "null", "null", broker, "4"]
    assert second[11] == "3"


@pytest.mark.parametrize("kind", ["thread", "async", "coroutine"])
def test_a_handler_has_a_record_before_and_after(mq, kind) -> None:
    topic, traces = mq.topic(), mq.topic()
    again = threading.Semaphore(0)

    def thread(messages, context):
        context.delay_level = 1
        if messages[0].reconsume_times:
            again.release()
        elif messages[0].body == b"bad":
            return ConsumeResult.RECONSUME_LATER
        elif messages[0].body == b"worse":
            raise RuntimeError("worse")
        return None

    async def asynchronous(messages, context):
        return thread(messages, context)

    handler = {
        "thread": thread,
        "async": asynchronous,
        "coroutine": lambda messages, context: asynchronous(messages, context),
    }[kind]
    with Producer(mq.namesrv) as sender:
        sent = {
            sender.send(Message(topic, body, keys="k")).msg_id: body
            for body in (b"good", b"worse", b"bad")
        }
    group = f"traced_{kind}"
    consumer = PushConsumer(group, mq.namesrv, consume_from="earliest", trace=Trace(traces))
    with consumer:
        consumer.subscribe(topic, "*", handler)
        assert again.acquire(timeout=30)
        assert again.acquire(timeout=30)
    outcomes: dict[bytes, list[tuple[str, str]]] = {body: [] for body in sent.values()}
    open_requests = {}
    # Records of different queues come in any order.
    ten = (fields for _, fields in zip(range(10), records(mq, traces), strict=False))
    for fields in sorted(ten, key=lambda fields: fields[0], reverse=True):
        if fields[0] == "SubBefore":
            assert fields[2:4] == ["null", group]  # the broker stores no region
            assert fields[7] == "k"
            open_requests[fields[4]] = fields
        else:
            before = open_requests[fields[1]]
            assert fields[2] == before[5]
            assert int(fields[7]) >= int(before[1])
            assert (fields[5], fields[8]) == ("k", group)
            outcomes[sent[fields[2]]].append((fields[4], fields[6]))
    assert {body: sorted(found) for body, found in outcomes.items()} == {
        b"good": [("true", "0")],
        b"bad": [("false", "4"), ("true", "0")],
        b"worse": [("false", "2"), ("true", "0")],
    }


def test_transactions_trace_the_half_message_and_its_end(mq) -> None:
    topic, traces = mq.topic(), mq.topic()
    producer = TransactionProducer(
        "traced_payers",
        mq.namesrv,
        check=lambda _message: TransactionState.COMMIT,
        trace=Trace(traces),
    )
    with producer:
        with producer.transaction(Message(topic, b"1", tags="T", keys="k")) as first:
            first.commit()
        with producer.transaction(Message(topic, b"2")) as second:
            second.rollback()
    four = (fields for _, fields in zip(range(4), records(mq, traces), strict=False))
    end, rolled_back, half, _half = sorted(
        four, key=lambda fields: (fields[0], fields[5] != first.result.msg_id)
    )
    assert (half[0], half[11]) == ("Pub", "1")
    msg_id = first.result.msg_id
    assert end == [
        "EndTransaction", end[1], "DefaultRegion", "traced_payers", topic, msg_id, "T", "k",
        half[8], "2", msg_id, "COMMIT_MESSAGE", "false",
    ]  # fmt: skip
    assert rolled_back[5:] == [
        *(second.result.msg_id, "null", "null", half[8], "2"),
        *(second.result.msg_id, "ROLLBACK_MESSAGE", "false"),
    ]


def test_a_client_without_trace_sends_no_record(mq) -> None:
    with Producer(mq.namesrv) as sender:
        assert isinstance(sender.send(Message(mq.topic(), b"x")), SendResult)
        assert sender._async._trace is None  # type: ignore[attr-defined]
        assert sender._async._sender.on_sent is None  # type: ignore[attr-defined]


async def test_trace_records_beyond_the_backlog_are_dropped(caplog) -> None:
    cluster = Cluster(Traces=1)
    client = Client(ConnectionOptions(NAMESRV, transport=cluster.transport))
    await client.start()
    dispatcher = TraceDispatcher(client, "Traces", "g", "PRODUCE")
    dispatcher.start()
    for i in range(BACKLOG_MAX + 5):
        dispatcher.append(TraceRecord(f"{i:04d}".ljust(1000, "x") + "\x02", [f"id{i}"]))
    assert dispatcher.dropped == 5
    await dispatcher.close()
    await client.close(1.0)
    sent = cluster.requests(RequestCode.SEND_MESSAGE_V2)
    assert len(sent) == -(-BACKLOG_MAX // 118)  # 118 records of 1,001 characters fill a message
    assert {request.fields["a"] for request in sent} == {"_INNER_TRACE_PRODUCER-g-PRODUCE"}
    assert "5 trace records were dropped" in caplog.text


async def test_a_record_that_cannot_be_sent_harms_nobody(caplog) -> None:
    cluster = Cluster(T=1, Traces=1)
    store = cluster.send

    def send(address: str, request: Frame) -> Frame:
        if request.fields["b"] == "Traces":
            return Frame(16, remark="no permission")
        return store(address, request)

    cluster.transport.scripts[310] = send
    options = {"transport": cluster.transport, "trace": Trace("Traces")}
    async with aio.Producer(NAMESRV, retry=Retry(max_retries=0), **options) as sender:
        assert (await sender.send(Message("T", b"x"))).queue_offset == 0
    assert "trace records could not be sent to topic Traces" in caplog.text

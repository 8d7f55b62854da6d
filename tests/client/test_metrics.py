"""Counters of a client's work, by any object, Prometheus and OpenTelemetry."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import prometheus_client
import pytest

from mqclient import (
    BrokerError,
    LitePullConsumer,
    Message,
    MessageQueue,
    Producer,
    PushConsumer,
    aio,
)
from mqclient.consumer.lag import tell_lag
from mqclient.metrics import METRICS, OpenTelemetryMetrics, PrometheusMetrics
from mqcommon.wire import Frame
from tests.client.cluster import NAME, NAMESRV, Cluster
from tests.missing_packages import hide
from tests.waiting import until_async

PAGE = Path(__file__).parents[2] / "docs" / "client" / "observing.md"


class Kept:
    """A `ClientMetrics` of a test: sums, and the last value of gauges."""

    def __init__(self) -> None:
        self.values: Counter[tuple[str, ...]] = Counter()

    def add(self, name: str, amount: float, labels: Mapping[str, str]) -> None:
        assert METRICS[name].labels == tuple(labels)
        assert METRICS[name].kind in ("counter", "sum")
        self.values[name, *labels.values()] += int(amount)

    def set(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        assert (METRICS[name].kind, METRICS[name].labels) == ("gauge", tuple(labels))
        self.values[name, *labels.values()] = int(value)


def producer_options(cluster: Cluster, metrics: object) -> dict[str, Any]:
    return {"group": "P", "transport": cluster.transport, "metrics": metrics}


async def test_sends_are_counted_in_both_faces() -> None:
    cluster, kept = Cluster(T=1), Kept()
    options = producer_options(cluster, kept)
    async with aio.Producer(NAMESRV, **options) as producer:
        await producer.send(Message("T", b"1"))
        await producer.send([Message("T", b"2"), Message("T", b"3")])
        await producer.send_oneway(Message("T", b"4"))
        cluster.transport.scripts[310] = lambda _a, _r: Frame(13, remark="illegal")
        with pytest.raises(BrokerError):
            await producer.send(Message("T", b"5"))
    with Producer(NAMESRV, **options) as blocking:
        assert isinstance(blocking.send_async(Message("T", b"6")).exception(60), BrokerError)
        with pytest.raises(BrokerError):
            blocking.send(Message("T", b"7"))
    assert +kept.values == {
        ("messages_sent", "P", "T"): 4,
        ("send_failures", "P", "T", "BrokerError"): 3,
    }


async def test_further_tries_are_counted() -> None:
    cluster, kept, answers = Cluster(T=1), Kept(), iter([14, 14])
    store = cluster.send

    def send(address: str, request: Frame) -> Frame:
        code = next(answers, 0)
        return Frame(code, remark="stopping") if code else store(address, request)

    cluster.transport.scripts[310] = send
    async with aio.Producer(NAMESRV, **producer_options(cluster, kept)) as producer:
        await producer.send(Message("T", b"x"))
    assert kept.values["send_retries", "P", "T"] == 2


async def test_handled_failed_and_returned_messages_are_counted() -> None:
    cluster, kept = Cluster(T=1, **{"%RETRY%C": 1}), Kept()
    cluster.put("T", b"good", b"bad", b"good")
    consumer = aio.PushConsumer(
        "C", NAMESRV, transport=cluster.transport, consume_from="earliest", metrics=kept
    )

    @consumer.on_message("T")
    async def handle(message: Any) -> None:
        if message.body == b"bad":
            raise RuntimeError("no")

    async with consumer:
        await until_async(lambda: kept.values["messages_sent_back", "C", "T"])
        await until_async(lambda: kept.values["messages_handled", "C", "T"] == 2)
    assert kept.values["handler_failures", "C", "T"] == 1


async def test_the_lag_is_reported(mq: Any) -> None:
    topic, kept = mq.topic(queues=1), Kept()
    async with aio.Producer(mq.namesrv) as producer:
        await producer.send([Message(topic, b"x")] * 3)
    options = {"consume_from": "earliest", "metrics": kept}
    async with aio.PushConsumer("g_lag", mq.namesrv, **options) as consumer:
        consumer.pause()
        consumer.subscribe(topic, "*", lambda messages: None)
        await consumer.wait_assigned()
        await tell_lag(kept, "g_lag", consumer.lag)
        assert kept.values["lag_messages", "g_lag", topic] == 3


async def test_a_lite_pull_consumer_counts_what_it_passes() -> None:
    cluster, kept = Cluster(T=1), Kept()
    cluster.put("T", *(b"%d" % at for at in range(5)))
    handled = ("messages_handled", "C", "T")
    options = {"transport": cluster.transport, "consume_from": "earliest", "metrics": kept}
    async with aio.LitePullConsumer("C", NAMESRV, **options) as consumer:
        consumer.subscribe("T")
        await consumer.wait_assigned()
        assert len(await consumer.poll(3, timeout=60)) == 3
        assert kept.values[handled] == 0
        got = await consumer.poll(timeout=60)  # the three before are handled by this
        await consumer.commit(got[0])
    assert kept.values[handled] == 4
    assert cluster.committed == {MessageQueue("T", NAME, 0): 4}


def test_the_blocking_lite_pull_consumer_counts_too(mq: Any) -> None:
    topic, kept = mq.topic(queues=1), Kept()
    with Producer(mq.namesrv) as producer:
        producer.send([Message(topic, b"x")] * 3)
    options = {"consume_from": "earliest", "metrics": kept}
    with LitePullConsumer("g_passed", mq.namesrv, **options) as consumer:
        consumer.subscribe(topic)
        messages = iter(consumer)
        for _ in range(3):
            next(messages)
        consumer._running.run(tell_lag(kept, "g_passed", consumer._async.lag))
        assert kept.values["lag_messages", "g_passed", topic] == 1
        consumer.commit()
    assert kept.values["messages_handled", "g_passed", topic] == 3


async def test_prometheus_has_every_metric() -> None:
    registry, cluster = prometheus_client.CollectorRegistry(), Cluster(T=1)
    metrics = PrometheusMetrics(registry)
    async with aio.Producer(NAMESRV, **producer_options(cluster, metrics)) as producer:
        await producer.send(Message("T", b"x"))
    metrics.set("lag_messages", 7, {"group": "C", "topic": "T"})
    text = prometheus_client.generate_latest(registry).decode()
    assert 'rocketmq_client_messages_sent_total{group="P",topic="T"} 1.0' in text
    assert 'rocketmq_client_lag_messages{group="C",topic="T"} 7.0' in text
    assert {metric.name for metric in registry.collect()} == {
        f"rocketmq_client_{name}" for name in METRICS
    }


async def test_opentelemetry_gets_the_same() -> None:
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import InMemoryMetricReader

    reader = InMemoryMetricReader()
    metrics = OpenTelemetryMetrics(MeterProvider([reader]))
    cluster = Cluster(T=1)
    async with aio.Producer(NAMESRV, **producer_options(cluster, metrics)) as producer:
        await producer.send(Message("T", b"x"))
    metrics.set("lag_messages", 7, {"group": "C", "topic": "T"})
    found: Any = reader.get_metrics_data()
    values = {
        metric.name: [point.value for point in metric.data.data_points]
        for metric in found.resource_metrics[0].scope_metrics[0].metrics
    }
    assert values == {
        "rocketmq.client.messages_sent": [1],
        "rocketmq.client.messages_in_flight": [0],
        "rocketmq.client.lag_messages": [7],
    }


def test_nothing_is_put_around_sends_without_metrics() -> None:
    assert Producer()._middleware == aio.Producer()._middleware == ()


@pytest.mark.parametrize(
    "make", [Producer, lambda metrics: PushConsumer("g", metrics=metrics), LitePullConsumer]
)
def test_what_counts_nothing_is_refused(make: Any) -> None:
    for given in (print, PrometheusMetrics):
        with pytest.raises(TypeError, match=r"metrics must have add\(.*as PrometheusMetrics"):
            make(metrics=given)


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("prometheus_client", r"PrometheusMetrics needs prometheus-client: pip install 'mqstack\["),
        (
            "opentelemetry",
            r"OpenTelemetryMetrics needs opentelemetry: pip install 'mqstack\[otel",
        ),
    ],
)
def test_a_missing_package_names_its_extra(
    monkeypatch: pytest.MonkeyPatch, package: str, words: str
) -> None:
    hide(monkeypatch, package)
    kinds = {"prometheus_client": PrometheusMetrics, "opentelemetry": OpenTelemetryMetrics}
    with pytest.raises(ImportError, match=words):
        kinds[package]()


def test_the_page_lists_every_metric() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (\w+) \| (.+?) \| (.+?) \|$", PAGE.read_text(), re.MULTILINE)
    listed = {row[0]: row[1:] for row in rows if row[0] in METRICS}
    assert listed == {
        name: (metric.kind, ", ".join(f"`{label}`" for label in metric.labels), metric.about)
        for name, metric in METRICS.items()
    }

"""An outage of a broker takes only a few log lines."""

import logging

import pytest

from mqclient import Connection, UnreachableError
from mqclient.aio import LitePullConsumer
from mqclient.engine.outages import Outages
from mqcommon.wire import RequestCode
from tests.client.cluster import BROKER, NAMESRV, Cluster
from tests.client.reading import Seen, reading
from tests.waiting import until_async


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_lines_at_the_start_each_minute_and_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outages = Outages(36.0, clock)
    outages.answered("b")
    for _ in range(130):  # seconds
        for queue in range(8):
            outages.failed("b", "pulling %d failed: %s", queue, "100% gone")
        clock.now += 1
    for _ in range(40):
        clock.now += 1
        outages.answered("b")
    assert [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING] == [
        "pulling 0 failed: 100% gone; other failures of broker b are logged once a minute",
        "broker b: 481 requests failed in 60 s, the last one: pulling 0 failed: 100% gone",
        "broker b: 961 requests failed in 120 s, the last one: pulling 0 failed: 100% gone",
        "broker b answers again, after 131 s with 1040 failed requests",
    ]


def test_a_slave_that_answers_does_not_end_the_outage(caplog: pytest.LogCaptureFixture) -> None:
    clock = Clock()
    outages = Outages(36.0, clock)
    for second in range(90):
        if second % 30 == 0:
            outages.failed("b", "no heartbeat")
        outages.answered("b")
        clock.now += 1
    outages.failed("c", "no heartbeat")
    lines = [one.getMessage() for one in caplog.records if one.levelno == logging.WARNING]
    assert [line.split(";")[0] for line in lines] == [
        "no heartbeat",
        "broker b: 3 requests failed in 60 s, the last one: no heartbeat",
        "no heartbeat",
    ]


@pytest.mark.parametrize("kind", ["push", "orderly", "lite"])
async def test_consumers_tell_an_outage_once(caplog: pytest.LogCaptureFixture, kind: str) -> None:
    cluster = Cluster(T=8)
    scripts = cluster.transport.scripts
    working = dict(scripts)
    namesrv = (RequestCode.GET_ROUTEINFO_BY_TOPIC, RequestCode.GET_BROKER_CLUSTER_INFO)
    options = {"connection": Connection(heartbeat_interval=0.05), "rebalance_interval": 0.05}

    async def outage_and_end() -> None:
        caplog.clear()
        count = len(cluster.transport.sent)
        for code in working.keys() - set(map(int, namesrv)):
            scripts[code] = lambda _address, _request: UnreachableError("gone", BROKER)
        cluster.arrived.set()
        await until_async(lambda: len(cluster.transport.sent) > count + 40)
        scripts.update(working)
        await until_async(lambda: "answers again" in caplog.text)

    with caplog.at_level(logging.WARNING, "mqclient"):
        if kind == "lite":
            options["commit_interval"] = 0.05
            async with LitePullConsumer(
                "g", NAMESRV, transport=cluster.transport, **options
            ) as consumer:
                consumer.subscribe("T")
                await until_async(lambda: cluster.requests(RequestCode.PULL_MESSAGE))
                await outage_and_end()
        else:
            options |= {"commit_interval": 0.05, "orderly": kind == "orderly"}
            async with reading(cluster, Seen(), **options):
                await until_async(lambda: cluster.requests(RequestCode.PULL_MESSAGE))
                await outage_and_end()
    lines = [one.getMessage() for one in caplog.records]
    brokers = [line for line in lines if "rebalancing" not in line]
    assert len(brokers) == 2, lines
    assert len(lines) <= 4, lines

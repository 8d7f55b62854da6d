"""Edges of lags and of the way back of dead letters that a healthy broker does not show."""

from __future__ import annotations

import json
from types import TracebackType
from typing import Self

import pytest

from mqadmin import main
from mqclient import Message, Producer
from mqclient.admin import Admin
from mqclient.admin import lag as lag_module
from mqclient.admin.dead_letters import PAGE, REDRIVE_GROUP, DeadLetters
from mqclient.blocking.admin import Admin as BlockingAdmin
from mqclient.errors import UnreachableError
from mqcommon.message import MessageQueue
from mqcommon.wire import RequestCode
from mqcommon.wire.bodies.groups import ConsumeStats, OffsetWrapper
from mqcommon.wire.bodies.topics import (
    QueryConsumeTimeSpanBody,
    QueueTimeSpan,
    TopicOffset,
    TopicStatsTable,
)
from mqserver import Standalone
from tests.admin.test_admin import A0, B0, TwoBrokers, per_broker, run

NOW = 1_795_247_654_906


@pytest.mark.parametrize(
    ("committed", "extent", "delay_ms", "oldest_ms", "messages", "age_ms"),
    [
        (4, (0, 10), 1500, NOW - 700, 6, 1500),
        (4, (0, 10), -20, NOW - 700, 6, 0),
        (2, (5, 10), NOW + 1, NOW - 700, 5, 700),
        (2, (5, 10), NOW + 1, -1, 5, 0),
        (10, (0, 10), 0, NOW - 700, 0, 0),
        (12, (0, 10), 0, NOW - 700, 0, 0),
        (0, (10, 10), 900, NOW - 700, 0, 0),
    ],
    ids=["behind", "clocks", "deleted", "unknown", "at the end", "after the end", "empty"],
)
async def test_a_lag_counts_stored_messages(
    committed: int,
    extent: tuple[int, int],
    delay_ms: int,
    oldest_ms: int,
    messages: int,
    age_ms: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lag_module, "_now_ms", lambda: NOW)
    span = QueueTimeSpan(A0, min_time_stamp=oldest_ms, delay_time=delay_ms)
    cluster = TwoBrokers(
        GET_CONSUME_STATS=per_broker(
            a=ConsumeStats({A0: OffsetWrapper(extent[1], committed, 1)}).to_json(),
            b=ConsumeStats().to_json(),
        ),
        GET_TOPIC_STATS_INFO=per_broker(
            a=TopicStatsTable({A0: TopicOffset(*extent)}).to_json(),
            b=TopicStatsTable({B0: TopicOffset()}).to_json(),
        ),
        QUERY_CONSUME_TIME_SPAN=per_broker(
            a=QueryConsumeTimeSpanBody([span]).to_json(), b=QueryConsumeTimeSpanBody().to_json()
        ),
    )
    (found,) = await run(cluster, lambda admin: admin.lags.of("g"))
    assert (found.messages, found.milliseconds) == (messages, age_ms)
    assert len(cluster.brokers_asked(RequestCode.QUERY_CONSUME_TIME_SPAN)) == 2


class FailingProducer:
    """A producer that sends one message; its broker is down then."""

    def __init__(self) -> None:
        self.sent: list[Message] = []

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        pass

    async def send(self, message: Message) -> None:
        if self.sent:
            raise UnreachableError("the broker is down", "h:1")
        self.sent.append(message)


class WatchingProducer(FailingProducer):
    """A producer that notes, with each message, how far the redrive was committed then."""

    def __init__(self, admin: Admin, queue: MessageQueue) -> None:
        super().__init__()
        self.committed: list[int] = []
        self._admin, self._queue = admin, queue

    async def send(self, message: Message) -> None:
        found = await self._admin.offsets.committed(REDRIVE_GROUP, self._queue)
        self.committed.append(found or 0)


async def test_a_redrive_that_is_killed_repeats_one_page_at_most(
    mq_broker: Standalone, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = dead_group(mq_broker, "many_redriven", PAGE + 2)
    queue = MessageQueue(f"%DLQ%{group}", "broker-a", 0)
    async with Admin(mq_broker.namesrv) as admin:
        producer = WatchingProducer(admin, queue)
        monkeypatch.setattr(admin.dead_letters, "_producer", lambda _group: producer)
        assert len((await admin.dead_letters.redrive(group)).messages) == PAGE + 2
        assert producer.committed == [0] * PAGE + [PAGE] * 2
        assert await admin.offsets.committed(REDRIVE_GROUP, queue) == PAGE + 2


def dead_group(mq_broker: Standalone, name: str = "half_redriven", count: int = 2) -> str:
    """A group with dead letters."""
    group = mq_broker.topic(name)
    with BlockingAdmin(mq_broker.namesrv) as admin:
        admin.topics.create(f"%DLQ%{group}", 1)
    with Producer(mq_broker.namesrv) as producer:
        for number in range(count):
            producer.send(Message(f"%DLQ%{group}", b"%d" % number))
    mq_broker.wait_dispatched()
    return group


async def test_after_a_failure_the_rest_waits(
    mq_broker: Standalone, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = dead_group(mq_broker)
    producer = FailingProducer()
    async with Admin(mq_broker.namesrv) as admin:
        monkeypatch.setattr(admin.dead_letters, "_producer", lambda _group: producer)
        done = await admin.dead_letters.redrive(group)
        assert isinstance(done.failure, UnreachableError)
        assert [message.body for message in done.messages] == [b"0"]
        queue = MessageQueue(f"%DLQ%{group}", "broker-a", 0)
        assert await admin.offsets.committed(REDRIVE_GROUP, queue) == 1
        (waiting,) = await admin.dead_letters.read(group)
        assert waiting.body == b"1"


def test_a_failure_is_shown_after_the_messages_that_were_sent(
    mq_broker: Standalone, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    group = dead_group(mq_broker)
    original = DeadLetters.__init__

    def failing(self: DeadLetters, *arguments: object) -> None:
        original(self, *arguments[:-1], lambda _group: FailingProducer())  # type: ignore[arg-type]

    monkeypatch.setattr(DeadLetters, "__init__", failing)
    words = ["dlq", "redrive", "-g", group, "--yes", "--again", "-n", mq_broker.namesrv]
    assert main([*words, "--output", "jsonl"]) == 3
    output = capsys.readouterr()
    assert json.loads(output.out)["body"] == "0"
    assert "the broker is down" in output.err

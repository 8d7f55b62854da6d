"""statsAll, brokerStatus and brokerConsumeStats at our own broker."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest

from mqadmin import main
from mqclient import Message, Producer, PushConsumer
from mqserver import Standalone

GROUP = "figures_group"


@pytest.fixture
def topic(mq_broker: Standalone) -> str:
    """A topic with seven messages, five of them consumed by GROUP and committed."""
    topic = mq_broker.topic(queues=1)
    done, seen = threading.Event(), []

    def take(messages: list[Any], _context: object) -> None:
        seen.extend(messages)
        if len(seen) >= 5:
            done.set()

    with Producer(mq_broker.namesrv) as producer:
        for number in range(5):
            producer.send(Message(topic, b"%d" % number))
        with PushConsumer(GROUP, mq_broker.namesrv, consume_from="earliest") as consumer:
            consumer.subscribe(topic, "*", take)
            assert done.wait(60)
            mq_broker.wait_consumed(GROUP, topic)
        for number in range(2):
            producer.send(Message(topic, b"%d" % number))
    mq_broker.wait_dispatched()
    return topic


def rows(mq: Standalone, capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main([*words, "-n", mq.namesrv, "--output", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_figures_of_a_broker(
    mq_broker: Standalone, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    at = ("-b", mq_broker.broker_address)
    status = rows(mq_broker, capsys, "brokerStatus", *at)[0]
    assert status["addr"] == mq_broker.broker_address
    assert int(status["msgPutTotalTodayNow"]) >= 7 and status["brokerVersionDesc"]
    assert rows(mq_broker, capsys, "brokerStatus", "-c", "DefaultCluster")[0].keys() == (
        status.keys()
    )
    stats = rows(mq_broker, capsys, "brokerConsumeStats", *at)
    mine = [row for row in stats if row["topic"] == topic]
    assert [(row["group"], row["brokerOffset"], row["diff"]) for row in mine] == [(GROUP, 7, 2)]
    behind = rows(mq_broker, capsys, "brokerConsumeStats", *at, "-l", "3")
    assert topic not in {row["topic"] for row in behind}
    found = rows(mq_broker, capsys, "statsAll", "-t", topic)
    assert [(row["group"], row["accumulation"]) for row in found] == [(GROUP, 2)]
    assert topic in {row["topic"] for row in rows(mq_broker, capsys, "statsAll")}
    assert rows(mq_broker, capsys, "statsAll", "-t", "NoSuchTopic") == []


def test_a_broker_must_be_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["brokerStatus", "-n", "127.0.0.1:1"]) == 2
    assert "-b or -c" in capsys.readouterr().err


def test_a_pipe_gets_rocketmqs_text_unless_told_otherwise(
    mq_broker: Standalone, topic: str, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["topicRoute", "-t", topic, "-n", mq_broker.namesrv]
    assert main([*words, "--output", "rocketmq"]) == 0
    text = capsys.readouterr().out
    assert main(words) == 0
    assert capsys.readouterr().out == text
    assert main(["topicList", "-n", mq_broker.namesrv]) == 0
    assert topic in capsys.readouterr().out.splitlines()

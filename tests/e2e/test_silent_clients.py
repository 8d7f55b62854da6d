"""Clients that say nothing: without heartbeats they leave the tables after 120 s, and who asks
them through the broker waits 10 s, or 5 s for a member's positions.
"""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from mqcommon.wire.frame import Frame
from mqserver.broker import broker as broker_module
from mqserver.broker.processors import relayed, reply, reset
from mqserver.embedded.raw_client import Probe, ask
from mqserver.embedded.standalone import Standalone
from tests.e2e.test_clients_asked import CLIENT, GROUP, heartbeat, replying
from tests.inside import broker_of
from tests.waiting import until

MEMBERS = Frame(38, {"consumerGroup": GROUP})
PRODUCERS = Frame(204, {"producerGroup": "CLIENT_INNER_PRODUCER", "topic": "any"})


GAP_S = 4.0


def members(mq: Standalone) -> list[str]:
    found = ask(mq.broker_address, MEMBERS)
    return sorted(json.loads(found.body)["consumerIdList"]) if found.code == 0 else []


def connections(mq: Standalone) -> list[str]:
    found = ask(mq.broker_address, PRODUCERS)
    return [row["clientId"] for row in json.loads(found.body)["connectionSet"]]


def close_silent(mq: Standalone, seconds: float) -> None:
    """The broker's own check, which it runs every 10 s with 120 s."""
    broker_of(mq).close_silent(seconds)


def keep_beating(client: Probe, beat: Frame) -> None:
    """Send heartbeats for GAP_S seconds; the pause after the last one is short against that."""
    pause, end = threading.Event(), time.monotonic() + GAP_S
    while time.monotonic() < end:
        assert client.call(beat).code == 0
        pause.wait(GAP_S / 100)


def test_who_sends_no_heartbeat_leaves_the_tables(mq: Standalone) -> None:
    assert broker_module.CLIENT_EXPIRY_S == 120
    topic = mq.topic()
    with Probe(mq.broker_address) as quiet, Probe(mq.broker_address) as loud:
        quiet.call(heartbeat(topic, "192.0.2.1@quiet"))
        loud.call(heartbeat(topic, "192.0.2.1@loud"))
        close_silent(mq, 120)
        assert members(mq) == ["192.0.2.1@loud", "192.0.2.1@quiet"]
        keep_beating(loud, heartbeat(topic, "192.0.2.1@loud"))
        close_silent(mq, GAP_S / 2)
        assert until(lambda: members(mq) == ["192.0.2.1@loud"])
        with pytest.raises(ConnectionError):
            quiet.call(Frame(38, {"consumerGroup": GROUP}))
        # The remaining client is notified of the change (40); it is also a producer.
        assert until(lambda: loud.call(MEMBERS).code == 0 and loud.pushed != [])
        assert [frame.code for frame in loud.pushed] == [40] * len(loud.pushed)
        assert until(lambda: connections(mq) == ["192.0.2.1@loud"])
        close_silent(mq, -1)
        assert until(lambda: members(mq) == [])
    assert until(lambda: not connections(mq))


def test_an_unchanged_heartbeat_keeps_a_client(mq: Standalone) -> None:
    topic = mq.topic()
    with Probe(mq.broker_address) as client:
        keep_beating(client, heartbeat(topic))  # answered natively in the native plane
        close_silent(mq, GAP_S / 2)
        assert members(mq) == [CLIENT]


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """The times that the test measures, shortened."""
    assert (relayed._TIMEOUT_S, reset._STATUS_TIMEOUT_S, reply._TIMEOUT_S) == (10, 5, 10)
    for module, name in (
        (relayed, "_TIMEOUT_S"),
        (reset, "_STATUS_TIMEOUT_S"),
        (reply, "_TIMEOUT_S"),
    ):
        monkeypatch.setattr(module, name, 0.2)


def timed(mq: Standalone, request: Frame) -> tuple[Frame, float]:
    begin = time.monotonic()
    found = ask(mq.broker_address, request, timeout=60)
    return found, time.monotonic() - begin


def test_who_does_not_answer_is_given_up(mq: Standalone, hurried: Any) -> None:
    topic = mq.topic()
    with Probe(mq.broker_address) as silent:
        silent.call(heartbeat(topic))
        info = Frame(307, {"consumerGroup": GROUP, "clientId": CLIENT, "jstackEnable": "false"})
        found, took = timed(mq, info)
        assert found.code == 207
        assert (found.remark or "").startswith(f"consumer <{GROUP}> <{CLIENT}> Timeout: ")
        assert took >= 0.2
        status = Frame(223, {"topic": topic, "group": GROUP})
        found, took = timed(mq, status)
        assert (found.code, json.loads(found.body)["consumerTable"]) == (0, {})
        assert took >= 0.2
        found, took = timed(mq, replying(topic, CLIENT))
        assert (found.code, found.remark) == (1, f"push reply message to {CLIENT}fail.")
        assert took >= 0.2

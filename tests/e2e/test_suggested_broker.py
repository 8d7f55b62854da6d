"""The broker that a pull's reply says to pull from next (`slaveReadEnable`)."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from mqcommon.wire.bodies.groups import GroupConfig
from mqcommon.wire.codes import RequestCode as Code
from mqcommon.wire.frame import Frame, encode
from mqserver.broker.context import StoreDoor
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from tests.inside import context_of
from tests.waiting import until

GROUP = GroupConfig("suggested", broker_id=2, which_broker_when_consume_slowly=3)
INLINE, SUSPEND = 4, 2


class Lagging:
    """A store whose readers are further behind than memory reaches: more than a test can write."""

    def __init__(self, store: StoreDoor) -> None:
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def get(self, *asked: object) -> SimpleNamespace:
        found = self._store.get(*asked)
        names = (name for name in dir(found) if not name.startswith("_"))
        told = {name: getattr(found, name) for name in names}
        return SimpleNamespace(**told | {"suggest_slave": True})


@pytest.fixture
def probe(mq: Standalone) -> Iterator[Probe]:
    with Probe(mq.broker_address, timeout=60) as probe:
        made = probe.call(Frame(Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=GROUP.to_json()))
        assert made.code == 0
        yield probe
        set_slave_read(probe, "false")


def set_slave_read(probe: Probe, value: str) -> None:
    body = f"slaveReadEnable={value}".encode()
    assert probe.call(Frame(Code.UPDATE_BROKER_CONFIG, body=body)).code == 0


def pull(topic: str, sys_flag: int = INLINE) -> Frame:
    fields = {
        "consumerGroup": GROUP.group_name, "topic": topic, "queueId": "0", "queueOffset": "0",
        "maxMsgNums": "32", "sysFlag": str(sys_flag), "commitOffset": "0", "subVersion": "0",
        "suspendTimeoutMillis": "50000", "subscription": "*",
    }  # fmt: skip
    return Frame(Code.PULL_MESSAGE, fields)


def send(probe: Probe, topic: str) -> None:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
    reply = probe.call(Frame(Code.SEND_MESSAGE_V2, {**letters, "h": "0", "i": "", "m": "false"}))
    assert reply.code == 0


@pytest.mark.parametrize(("slave_read", "suggested"), [("false", "0"), ("true", "2")])
def test_a_group_that_keeps_up(
    mq: Standalone, probe: Probe, plane: str, slave_read: str, suggested: str
) -> None:
    topic = mq.topic()
    send(probe, topic)
    mq.wait_dispatched()
    set_slave_read(probe, slave_read)
    before = context_of(mq).counters().get("python.11", 0)
    reply = probe.call(pull(topic))
    assert (reply.code, reply.fields["suggestWhichBrokerId"]) == (0, suggested)
    assert context_of(mq).counters().get("python.11", 0) - before == (plane == "python")


@pytest.mark.parametrize(("slave_read", "suggested"), [("false", "0"), ("true", "3")])
def test_a_group_that_is_far_behind(
    mq: Standalone,
    probe: Probe,
    plane: str,
    monkeypatch: pytest.MonkeyPatch,
    slave_read: str,
    suggested: str,
) -> None:
    if plane == "native":
        pytest.skip("its store cannot be replaced; `Tables::next_broker` has a test in Rust")
    topic = mq.topic()
    send(probe, topic)
    mq.wait_dispatched()
    set_slave_read(probe, slave_read)
    context = context_of(mq)
    monkeypatch.setattr(context, "store", Lagging(context.store))
    reply = probe.call(pull(topic))
    assert (reply.code, reply.fields["suggestWhichBrokerId"]) == (0, suggested)


@pytest.mark.parametrize(("before", "after", "suggested"), [("false", "true", "2"),
                                                            ("true", "false", "0")])  # fmt: skip
def test_the_setting_counts_when_a_held_pull_is_answered(
    mq: Standalone, probe: Probe, before: str, after: str, suggested: str
) -> None:
    topic = mq.topic()
    set_slave_read(probe, before)
    with Probe(mq.broker_address, timeout=60) as waiting:
        waiting.write(encode(pull(topic, INLINE | SUSPEND)))
        assert until(lambda: context_of(mq).counters()["held"] == 1)
        set_slave_read(probe, after)
        send(probe, topic)
        reply = waiting.read()
        assert (reply.code, reply.fields["suggestWhichBrokerId"]) == (0, suggested)

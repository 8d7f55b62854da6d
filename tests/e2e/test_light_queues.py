"""Light queues: topics and groups are created on demand, up to the limit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import decode_messages

LIMITED = {"enableMultiDispatch": "true", "enableLmq": "true", "maxLmqConsumeQueueNum": "1"}
GROUP = "%LMQ%b"
PULL = {"consumerGroup": GROUP, "topic": GROUP, "queueId": "0", "queueOffset": "0"}
PULL |= {"maxMsgNums": "32", "sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "50000"}
PULL |= {"subscription": "*", "subVersion": "0", "expressionType": "TAG"}


def send(names: str) -> Frame:
    letters = {"a": "p", "b": "TopicTest", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1"}
    properties = f"INNER_MULTI_DISPATCH\x01{names}"
    return Frame(310, {**letters, "h": "0", "i": properties, "m": "false"}, b"x")


@pytest.fixture(params=["native", "python"])
def limited(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Standalone]:
    with Standalone(tmp_path / "mq", settings={**LIMITED, "dataPlane": request.param}) as mq:
        yield mq


def test_a_light_queue_is_read_and_one_too_many_is_refused(limited: Standalone) -> None:
    with Probe(limited.broker_address, timeout=60) as probe:
        assert probe.call(send("%LMQ%a,%LMQ%b")).code == 0
        pulled = probe.call(Frame(11, PULL))  # held until it is dispatched
        assert [message.body for message in decode_messages(pulled.body)] == [b"x"]
        commit = {"consumerGroup": GROUP, "topic": GROUP, "queueId": "0"}
        assert probe.call(Frame(15, {**commit, "commitOffset": "1"})).code == 0
        assert probe.call(Frame(14, commit)).fields["offset"] == "1"
        for command in (Frame(21), Frame(201)):  # nor are they in the lists
            assert b"%LMQ%" not in probe.call(command).body
        reply = probe.call(send("%LMQ%a"))
        assert (reply.code, (reply.remark or "")[:32]) == (1, "[LMQ_CONSUME_QUEUE_NUM_EXCEEDED]")

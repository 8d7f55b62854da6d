"""Numbers out of range are refused before any change, and other clients notice nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe, ask
from mqserver.embedded.standalone import Standalone

LONG_MAX = (1 << 63) - 1
TOPIC = {"defaultTopic": "TBW102", "topicFilterType": "SINGLE_TAG", "order": "false"}
TOPIC |= {"readQueueNums": "4", "writeQueueNums": "4", "perm": "6", "topicSysFlag": "0"}
PULL = {"consumerGroup": "g", "queueId": "0", "queueOffset": "0", "maxMsgNums": "1"}
PULL |= {"sysFlag": "0", "commitOffset": "0", "suspendTimeoutMillis": "0"}
PULL_NOT_FOUND = 19


@pytest.fixture(params=("native", "python"))
def mq(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Standalone]:
    """A NameServer and a broker of each data plane."""
    with Standalone(tmp_path, settings={"dataPlane": str(request.param)}) as running:
        yield running


def beat(probe: Probe, client: str, topic: str, version: int) -> Frame:
    subscription = {"topic": topic, "subString": "*", "subVersion": version}
    group = {"groupName": "g", "subscriptionDataSet": [subscription]}
    return probe.call(Frame(34, {}, json.dumps({"clientID": client, "consumerDataSet": [group]})
                            .encode()))  # fmt: skip


def pull(probe: Probe, topic: str, version: int) -> int:
    return probe.call(Frame(11, {**PULL, "topic": topic, "subVersion": str(version)})).code


@pytest.mark.parametrize("version", [LONG_MAX, LONG_MAX + 1])
def test_a_version_ends_with_the_client_that_brought_it(mq: Standalone, version: int) -> None:
    topic = mq.topic()
    with Probe(mq.broker_address) as healthy:
        assert beat(healthy, "healthy", topic, 5).code == 0
        with Probe(mq.broker_address) as hostile:
            reply = beat(hostile, "hostile", topic, version)
            if version > LONG_MAX:
                assert reply.code == 1
                assert f"{version} does not fit 64 bits" in (reply.remark or "")
            hostile.call(Frame(35, {"clientID": "hostile", "consumerGroup": "g"}))
        assert pull(healthy, topic, 5) == PULL_NOT_FOUND
        assert beat(healthy, "healthy", topic, 6).code == 0
        assert pull(healthy, topic, 6) == PULL_NOT_FOUND
        shown = healthy.call(Frame(203, {"consumerGroup": "g"})).body
        assert b'"subVersion":6' in shown, "the healthy client's expression counts"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("perm", "2147483648"),
        ("perm", "2147483647"),
        ("perm", "8"),
        ("perm", "-1"),
        ("topicSysFlag", "9999999999999"),
        ("readQueueNums", "2147483648"),
        ("writeQueueNums", "65537"),
    ],
)
def test_a_topic_of_a_bad_number_is_refused(mq: Standalone, name: str, value: str) -> None:
    before = ask(mq.broker_address, Frame(21)).body
    reply = ask(mq.broker_address, Frame(17, {**TOPIC, "topic": "Bad", name: value}))
    assert reply.code == 1
    assert value in (reply.remark or "")
    if value == "65537":
        assert f"topic Bad: {name}={value} must be 0 to 65536" in (reply.remark or "")
    assert ask(mq.broker_address, Frame(21)).body == before
    assert ask(mq.broker_address, Frame(17, {**TOPIC, "topic": "Good"})).code == 0
    assert ask(mq.namesrv, Frame(105, {"topic": "Good"})).code == 0, "it registers still"


@pytest.mark.parametrize("queues", [2147483648, 2147483647, -1])
def test_a_group_of_a_bad_number_is_refused(mq: Standalone, queues: int) -> None:
    body = json.dumps({"groupName": "bad", "retryQueueNums": queues}).encode()
    reply = ask(mq.broker_address, Frame(200, {}, body))
    assert reply.code == 1
    assert str(queues) in (reply.remark or "")
    assert b'"bad"' not in ask(mq.broker_address, Frame(201)).body

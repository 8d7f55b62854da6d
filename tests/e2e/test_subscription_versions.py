"""A subscription's version counts while a client holds it: none locks a group out for ever."""

from __future__ import annotations

import json

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import decode_messages
from tests.server.native import pull_fields, send_fields
from tests.waiting import until

GROUP = "versions"
LONG_MAX = (1 << 63) - 1
FOUND, NOT_LATEST = 0, 25


def beat(probe: Probe, topic: str, tag: str, version: int) -> Frame:
    subscription = {"topic": topic, "subString": tag, "subVersion": version, "tagsSet": [tag]}
    code = sum(ord(letter) * 31 ** (len(tag) - 1 - at) for at, letter in enumerate(tag))
    subscription["codeSet"] = [code]
    group = {"groupName": GROUP, "subscriptionDataSet": [subscription]}
    body = {"clientID": f"c@{version}", "consumerDataSet": [group]}
    return probe.call(Frame(34, body=json.dumps(body).encode()))


def pull(probe: Probe, topic: str, version: int) -> Frame:
    fields = pull_fields(0, consumerGroup=GROUP, topic=topic, subVersion=str(version))
    return probe.call(Frame(11, {**fields, "sysFlag": "0"}))


@pytest.fixture
def topic(mq: Standalone) -> str:
    name = mq.topic()
    with Probe(mq.broker_address) as probe:
        sent = send_fields(b=name, i="TAGS\x01A\x02")
        assert probe.call(Frame(310, sent, b"x")).code == 0
    mq.wait_dispatched()
    return name


def test_the_highest_version_ends_with_its_client(mq: Standalone, topic: str) -> None:
    with Probe(mq.broker_address) as own:
        assert beat(own, topic, "A", 5).code == 0
        with Probe(mq.broker_address) as other:
            assert beat(other, topic, "B", LONG_MAX).code == 0
            assert pull(own, topic, 5).code != FOUND, "the newest expression counts"
        assert until(lambda: pull(own, topic, 5).code == FOUND)
        assert beat(own, topic, "A", 6).code == 0
        reply = pull(own, topic, 6)
        assert reply.code == FOUND
        assert [message.tags for message in decode_messages(reply.body)] == ["A"]
        assert pull(own, topic, 7).code == NOT_LATEST


def test_a_version_that_is_no_long_changes_nothing(mq: Standalone, topic: str) -> None:
    with Probe(mq.broker_address) as own, Probe(mq.broker_address) as other:
        assert beat(own, topic, "A", 5).code == 0
        assert beat(other, topic, "B", LONG_MAX + 1).code == 1
        assert pull(own, topic, 5).code == FOUND
        assert beat(own, topic, "A", 6).code == 0
        assert pull(own, topic, 6).code == FOUND

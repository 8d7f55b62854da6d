"""Consuming by SQL92 expressions, in both planes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from mqcommon.wire.frame import Frame, encode
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import decode_messages

INLINE, SUSPEND = 4, 2
REGIONS = ("eu", "us", "cn")


@pytest.fixture
def probe(mq: Standalone) -> Iterator[Probe]:
    with Probe(mq.broker_address, timeout=60) as probe:
        yield probe


def send(probe: Probe, topic: str, a: int, region: str) -> None:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
    text = f"a\x01{a}\x02region\x01{region}\x02TAGS\x01T"
    reply = probe.call(Frame(310, {**letters, "h": "0", "i": text, "m": "false"}, str(a).encode()))
    assert reply.code == 0


@pytest.fixture
def topic(mq: Standalone, probe: Probe) -> str:
    topic = mq.topic(queues=1)
    for a in range(60):
        send(probe, topic, a, REGIONS[a % 3])
    mq.wait_dispatched()
    return topic


def pull(topic: str, expression: str, offset: int = 0, kind: str = "SQL92", **more: str) -> Frame:
    fields = {"consumerGroup": "sql_readers", "topic": topic, "queueId": "0"}
    fields |= {"queueOffset": str(offset), "maxMsgNums": "32", "sysFlag": str(INLINE)}
    fields |= {"commitOffset": "0", "suspendTimeoutMillis": "50000", "subVersion": "0"}
    return Frame(11, {**fields, "subscription": expression, "expressionType": kind, **more})


def bodies(reply: Frame) -> list[int]:
    return [int(message.body) for message in decode_messages(reply.body)]


def test_messages_that_satisfy_the_expression_come(probe: Probe, topic: str) -> None:
    reply = probe.call(pull(topic, "a >= 50 AND region IN ('eu', 'us')"))
    assert (reply.code, reply.fields["nextBeginOffset"]) == (0, "60")
    assert bodies(reply) == [a for a in range(50, 60) if a % 3 != 2]


def test_a_batch_is_full_of_those_that_match(probe: Probe, topic: str) -> None:
    reply = probe.call(pull(topic, "region = 'us'", maxMsgNums="3"))
    assert bodies(reply) == [1, 4, 7]
    following = int(reply.fields["nextBeginOffset"])
    assert bodies(probe.call(pull(topic, "region = 'us'", following, maxMsgNums="2"))) == [10, 13]


def test_none_that_matches_is_asked_for_again_further_on(probe: Probe, topic: str) -> None:
    reply = probe.call(pull(topic, "a > 1000"))
    assert (reply.code, reply.remark) == (20, "NO_MATCHED_MESSAGE")
    assert reply.fields["nextBeginOffset"] == "60"


@pytest.mark.parametrize(("text", "kind"), [("a >", "SQL92"), ("a > 5", "XPATH")])
def test_what_cannot_be_compiled_comes_unfiltered_as_in_rocketmq(
    probe: Probe, topic: str, text: str, kind: str
) -> None:
    assert len(bodies(probe.call(pull(topic, text, kind=kind)))) == 32


def subscribe(probe: Probe, topic: str, expression: str) -> None:
    subscription = {"topic": topic, "subString": expression, "subVersion": 7}
    consumer = {
        "groupName": "sql_readers",
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_FIRST_OFFSET",
        "subscriptionDataSet": [{**subscription, "expressionType": "SQL92"}],
    }
    body = {"clientID": "c@sql", "consumerDataSet": [consumer], "producerDataSet": []}
    assert probe.call(Frame(34, {}, json.dumps(body).encode())).code == 0


def test_a_subscription_of_a_heartbeat_counts(probe: Probe, topic: str) -> None:
    subscribe(probe, topic, "a BETWEEN 10 AND 12")
    reply = probe.call(pull(topic, "", sysFlag="0", subVersion="7"))
    assert bodies(reply) == [10, 11, 12]
    assert probe.call(pull(topic, "", sysFlag="0", subVersion="8")).code == 25
    subscribe_worse = "a BETWEEN"
    with_other = Frame(35, {"clientID": "c@sql", "consumerGroup": "sql_readers"})
    assert probe.call(with_other).code == 0
    subscribe(probe, topic, subscribe_worse)
    assert probe.call(pull(topic, "", sysFlag="0", subVersion="7")).code == 27


def test_a_held_pull_is_woken_by_a_new_message(mq: Standalone, probe: Probe, topic: str) -> None:
    held = pull(topic, "a = 777", 60, sysFlag=str(INLINE | SUSPEND))
    held.opaque = 99
    probe.write(encode(held))
    with Probe(mq.broker_address) as other:
        send(other, topic, 777, "eu")
    reply = probe.read()
    assert (reply.opaque, reply.code, bodies(reply)) == (99, 0, [777])


def check(expression: str, kind: str = "SQL92") -> Frame:
    subscription = {"topic": "T", "subString": expression, "expressionType": kind}
    body = {"clientId": "c", "group": "g", "subscriptionData": subscription}
    return Frame(46, {}, json.dumps(body).encode())


def test_an_expression_can_be_checked_beforehand(probe: Probe) -> None:
    assert probe.call(check("a > 5")).code == 0
    assert probe.call(check("whatever ||", "TAG")).code == 0
    refused = probe.call(check("a > 'five'"))
    assert refused.code == 23
    assert "only numbers and properties have an order" in (refused.remark or "")


def test_expressions_are_refused_unless_they_are_enabled(plane: str) -> None:
    with Standalone(settings={"dataPlane": plane}) as mq, Probe(mq.broker_address) as probe:
        remark = "The broker does not support consumer to filter message by SQL92"
        for refused in (probe.call(pull(mq.topic(queues=1), "a > 5")), probe.call(check("a > 5"))):
            assert (refused.code, refused.remark) == (1, remark)

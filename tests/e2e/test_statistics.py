"""The broker's counters, as administration commands read them, are the same in both planes."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from mqcommon.wire.bodies.common import KVTable
from mqcommon.wire.bodies.groups import BrokerStatsData, ConsumeStats, ConsumeStatsList
from mqcommon.wire.frame import Frame
from mqserver.broker.context import BrokerContext
from mqserver.broker.slow_groups import stop_slow_groups
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from tests.common.wire.golden import FOLDER, frames
from tests.inside import context_of

GROUP = "stats_group"
CLUSTER = "DefaultCluster"


@pytest.fixture
def probe(mq: Standalone) -> Iterator[Probe]:
    with Probe(mq.broker_address, timeout=60) as probe:
        yield probe


def context(mq: Standalone) -> BrokerContext:
    return context_of(mq)


def send(probe: Probe, topic: str, text: str = "TAGS\x01TagA", code: int = 310) -> None:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
    reply = probe.call(Frame(code, {**letters, "h": "0", "i": text, "m": "false"}, b"x"))
    assert reply.code == 0, reply.remark


def pull(probe: Probe, topic: str, group: str = GROUP) -> Frame:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "queueOffset": "0"}
    fields |= {"maxMsgNums": "32", "sysFlag": "4", "commitOffset": "0", "subVersion": "0"}
    fields |= {"suspendTimeoutMillis": "0", "subscription": "*", "expressionType": "TAG"}
    return probe.call(Frame(11, fields))


def stats(probe: Probe, name: str, key: str) -> Frame:
    return probe.call(Frame(315, {"statsName": name, "statsKey": key}))


def minute(probe: Probe, name: str, key: str) -> tuple[int, float]:
    """Sum and average of an item."""
    reply = stats(probe, name, key)
    assert reply.code == 0, reply.remark
    found = BrokerStatsData.from_json(reply.body).stats_minute
    return found.sum, found.avgpt


def sample(broker: BrokerContext) -> None:
    """Take the next sample of the minute now, as if ten seconds had passed."""
    broker.stats._items._minute._due_ms = None
    broker.stats.sample()


def test_an_item_is_there_with_its_first_message(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic(queues=1)
    sample(context(mq))  # no sample is taken between the send and the query
    assert stats(probe, "TOPIC_PUT_NUMS", topic).remark == (
        f"The stats <TOPIC_PUT_NUMS> <{topic}> not exist"
    )
    send(probe, topic)
    reply = stats(probe, "TOPIC_PUT_NUMS", topic)
    item = '{"avgpt":0.0,"sum":0,"tps":0.0}'
    expected = f'{{"statsDay":{item},"statsHour":{item},"statsMinute":{item}}}'
    assert (reply.code, reply.remark, reply.has_fields) == (0, None, False)
    assert reply.body.decode() == expected
    for name in ("GROUP_GET_FALL_SIZE", "COMMERCIAL_SEND_TIMES"):
        assert stats(probe, name, topic).code == 1, "RocketMQ counts it nowhere, or only logs it"


def test_bad_requests_are_answered_in_rocketmqs_words(probe: Probe) -> None:
    recorded = {}
    for frame in frames(FOLDER / "raw-broker.jsonl.gz"):
        line = frame.line
        if line.get("code") == 315:
            recorded[line["opaque"]] = line["ext_fields"]
        elif line.get("reply_to") == 315 and line["code"] != 0:
            reply = probe.call(Frame(315, recorded[line["opaque"]]))
            assert (reply.code, reply.remark) == (line["code"], line["remark"])
    reply = probe.call(Frame(315, {"statsName": "TOPIC_PUT_NUMS"}))
    assert (reply.code, reply.remark) == (1, "The stats <TOPIC_PUT_NUMS> <null> not exist")


def test_sends_pulls_and_what_comes_back_are_counted(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic(queues=1)
    broker = context(mq)
    before = minute_of(broker)
    for _ in range(3):
        send(probe, topic)
    send(probe, topic, "DELAY\x0118")
    mq.wait_dispatched()
    found = pull(probe, topic)
    assert found.code == 0
    probe.call(Frame(200, {}, json.dumps({"groupName": GROUP}).encode()))
    back = {"offset": "0", "group": GROUP, "delayLevel": "17", "originTopic": topic}
    back["offset"] = str(first_record(mq, topic))
    assert probe.call(Frame(36, back)).code == 0
    sample(broker)

    size = len(found.body)
    assert minute(probe, "TOPIC_PUT_NUMS", topic) == (3, 1.0)
    assert minute(probe, "TOPIC_PUT_SIZE", topic) == (size, size / 3)
    assert minute(probe, "GROUP_GET_NUMS", f"{topic}@{GROUP}") == (3, 3.0)
    assert minute(probe, "GROUP_GET_SIZE", f"{topic}@{GROUP}") == (size, size)
    assert minute(probe, "SNDBCK_PUT_NUMS", f"{topic}@{GROUP}") == (1, 1.0)
    assert stats(probe, "GROUP_GET_LATENCY", f"0@{topic}@{GROUP}").code == 0
    for queue_id in (16, 17):
        assert minute(probe, "QUEUE_PUT_NUMS", f"SCHEDULE_TOPIC_XXXX@{queue_id}") == (1, 1.0)
    puts = minute(probe, "BROKER_PUT_NUMS", CLUSTER)
    gets = minute(probe, "BROKER_GET_NUMS", CLUSTER)
    assert (puts[0] - before[0], puts[1]) == (4, 0.0), "RocketMQ does not count what came back"
    assert gets == (before[1] + 6, 0.0), "`messages` pulls as well"


def minute_of(broker: BrokerContext) -> tuple[int, int]:
    """All puts and gets before a test, which shares its broker with the others."""
    sample(broker)
    found = [broker.stats.view(f"BROKER_{what}_NUMS", CLUSTER) for what in ("PUT", "GET")]
    put, get = (view.stats_minute.sum if view else 0 for view in found)
    return put, get


def first_record(mq: Standalone, topic: str) -> int:
    (first, *_) = mq.messages(topic)
    return first.commit_log_offset


def test_how_fast_a_group_reads(mq: Standalone, probe: Probe) -> None:
    topic, group = mq.topic(queues=1), "fast_group"
    probe.call(Frame(200, {}, json.dumps({"groupName": group}).encode()))
    send(probe, topic)
    mq.wait_dispatched()
    for _ in range(5):
        assert pull(probe, topic, group).code == 0
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0", "commitOffset": "1"}
    assert probe.call(Frame(15, fields)).code == 0
    sample(context(mq))
    expected = context(mq).stats.consume_tps(group, topic)
    assert 0.0 < expected <= 0.5
    one = ConsumeStats.from_json(probe.call(Frame(208, {"consumerGroup": group})).body)
    assert one.consume_tps == expected
    every = ConsumeStatsList.from_json(probe.call(Frame(317, {"isOrder": "false"})).body)
    (rows,) = [row[group] for row in every.consume_stats_list if group in row]
    assert [row.consume_tps for row in rows] == [expected]


def test_runtime_info_has_every_key_of_rocketmqs(probe: Probe) -> None:
    (recorded,) = [
        json.loads(frame.line["body_text"])["table"]
        for frame in frames(FOLDER / "raw-broker.jsonl.gz")
        if frame.line.get("reply_to") == 28
    ]
    ours = KVTable.from_json(probe.call(Frame(28)).body).table
    changing = ("scheduleMessageOffset_", "commitLog")
    wanted = {key for key in recorded if not key.startswith(changing)}
    assert wanted <= ours.keys()
    assert {"commitLogDiskRatio", "commitLogMinOffset", "commitLogDirCapacity"} <= ours.keys()
    same = [key for key in recorded if key.endswith(("Capacity", "QueueSize", "Numbs", "Mills"))]
    same.remove("commitLogDirCapacity")
    assert {key: ours[key] for key in same} == {key: recorded[key] for key in same}


def test_statistics_go_with_their_topic_if_that_is_set(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic(queues=1)
    for wanted, code in ((False, 0), (True, 1)):
        mq.topic(topic, queues=1)
        setting = f"autoDeleteUnusedStats={str(wanted).lower()}\n".encode()
        assert probe.call(Frame(25, {}, setting)).code == 0
        send(probe, topic)
        assert stats(probe, "TOPIC_PUT_NUMS", topic).code == 0
        assert probe.call(Frame(215, {"topic": topic})).code == 0
        assert stats(probe, "TOPIC_PUT_NUMS", topic).code == code


def test_a_group_that_is_too_far_behind_may_not_consume(mq: Standalone, probe: Probe) -> None:
    topic, group = mq.topic(queues=1), "slow_group"
    probe.call(Frame(200, {}, json.dumps({"groupName": group}).encode()))
    for _ in range(40):
        send(probe, topic)
    mq.wait_dispatched()
    assert pull(probe, topic, group).code == 0
    for settings, code in (
        ("consumerFallbehindThreshold=100\n", 0),
        ("disableConsumeIfConsumerReadSlowly=true\n", 16),
        ("disableConsumeIfConsumerReadSlowly=false\n", 0),
    ):
        assert probe.call(Frame(25, {}, settings.encode())).code == 0
        stop_slow_groups(context(mq))
        reply = pull(probe, topic, group)
        assert reply.code == code
        probe.call(Frame(200, {}, json.dumps({"groupName": group}).encode()))

"""Administration of topics, groups and offsets, in cases that the recorded session lacks."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from mqcommon.wire.bodies.groups import ConsumeStatsList, ProducerTableInfo
from mqcommon.wire.bodies.offsets import (
    ConsumerOffsetSerializeWrapper,
    DelayOffsetSerializeWrapper,
)
from mqcommon.wire.bodies.running import QueryConsumeQueueResponseBody
from mqcommon.wire.bodies.topics import TopicConfigSerializeWrapper
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.standalone import Standalone
from mqstore import MessageQueue
from tests.waiting import until

GROUP = "counted"
TAG_A = 2598919
"""Java's hash of "TagA"."""


@pytest.fixture
def probe(mq: Standalone) -> Iterator[Probe]:
    with Probe(mq.broker_address, timeout=60) as probe:
        yield probe


def send(probe: Probe, topic: str, count: int, text: str = "TAGS\x01TagA") -> None:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1"}
    for _ in range(count):
        reply = probe.call(Frame(310, {**letters, "h": "0", "i": text, "m": "false"}, b"x"))
        assert reply.code == 0


def commit(probe: Probe, group: str, topic: str, offset: int) -> None:
    fields = {"consumerGroup": group, "topic": topic, "queueId": "0"}
    assert probe.call(Frame(15, {**fields, "commitOffset": str(offset)})).code == 0


def committed(probe: Probe) -> dict[str, dict[int, int]]:
    return ConsumerOffsetSerializeWrapper.from_json(probe.call(Frame(43)).body).offset_table


def topics(probe: Probe) -> set[str]:
    body = probe.call(Frame(21)).body
    return set(TopicConfigSerializeWrapper.from_json(body).topic_config_table)


def test_a_deleted_topic_is_gone_and_comes_back_empty(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic(queues=1)
    send(probe, topic, 3)
    mq.wait_dispatched()
    assert probe.call(Frame(215, {"topic": topic})).code == 0
    assert topic not in topics(probe)
    mq.topic(topic, queues=1)
    assert mq.messages(topic) == []
    send(probe, topic, 1)
    assert [message.body for message in mq.messages(topic)] == [b"x"]


def test_a_deleted_group_takes_its_offsets_along_if_asked(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic(queues=1)
    groups = ("leaves", "stays")
    for group in groups:
        probe.call(Frame(200, {}, json.dumps({"groupName": group}).encode()))
        commit(probe, group, topic, 1)
        remove = str(group == "leaves").lower()
        assert probe.call(Frame(207, {"groupName": group, "removeOffset": remove})).code == 0
    table = json.loads(probe.call(Frame(201)).body)["subscriptionGroupTable"]
    assert not table.keys() & {*groups}
    assert f"{topic}@leaves" not in committed(probe)
    assert committed(probe)[f"{topic}@stays"] == {0: 1}


def test_offsets_are_cloned_and_compared(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic(queues=1)
    commit(probe, "source", topic, 5)
    fields = {"srcGroup": "source", "destGroup": "copy", "topic": topic, "offline": "true"}
    assert probe.call(Frame(314, fields)).code == 0
    assert committed(probe)[f"{topic}@copy"] == {0: 5}
    commit(probe, "copy", topic, 2)
    least = probe.call(Frame(308, {"topic": topic, "compareGroup": "source"}))
    assert json.loads(least.body)["correctionOffsets"] == {"0": 2}
    fields = {"topic": topic, "compareGroup": "source", "filterGroups": "copy"}
    without = probe.call(Frame(308, fields))
    assert json.loads(without.body)["correctionOffsets"] == {"0": 5}
    assert committed(probe)[f"{topic}@copy"] == {0: 2}, "RocketMQ deletes these; we do not"


def test_consume_stats_of_all_groups(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic(queues=1)
    send(probe, topic, 3)
    mq.wait_dispatched()
    probe.call(Frame(200, {}, json.dumps({"groupName": GROUP}).encode()))
    commit(probe, GROUP, topic, 1)
    body = ConsumeStatsList.from_json(probe.call(Frame(317, {"isOrder": "false"})).body)
    (rows,) = [row[GROUP] for row in body.consume_stats_list if GROUP in row]
    (stats,) = rows
    position = stats.offset_table[MessageQueue(topic, "broker-a", 0)]
    assert (position.broker_offset, position.consumer_offset) == (3, 1)
    assert body.total_diff >= 2
    ordered = ConsumeStatsList.from_json(probe.call(Frame(317, {"isOrder": "true"})).body)
    assert all(not row.get(GROUP) for row in ordered.consume_stats_list)


def test_units_of_a_queue(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic(queues=1)
    send(probe, topic, 50)
    mq.wait_dispatched()
    fields = {"topic": topic, "queueId": "0", "index": "10", "count": "40"}
    body = QueryConsumeQueueResponseBody.from_json(probe.call(Frame(321, fields)).body)
    assert (body.min_queue_index, body.max_queue_index) == (0, 50)
    assert [unit.tags_code for unit in body.queue_data] == [TAG_A] * 40
    offsets = [message.commit_log_offset for message in mq.messages(topic)]
    assert [unit.physic_offset for unit in body.queue_data] == offsets[10:]


def test_producers_are_listed(mq: Standalone, probe: Probe) -> None:
    body = {"clientID": "c@list", "producerDataSet": [{"groupName": "listed"}]}
    probe.call(Frame(34, {}, json.dumps({**body, "consumerDataSet": []}).encode()))
    rows = json.loads(probe.call(Frame(204, {"producerGroup": "listed"})).body)["connectionSet"]
    assert [row["clientId"] for row in rows] == ["c@list"]
    table = ProducerTableInfo.from_json(probe.call(Frame(328)).body).data
    (row,) = table["listed"]
    assert (row.client_id, row.language) == ("c@list", "PYTHON")
    assert row.remote_ip.startswith("/127.0.0.1:")


def test_delay_progress_is_shown(mq: Standalone, probe: Probe) -> None:
    topic = mq.topic(queues=1)
    send(probe, topic, 1, "DELAY\x011")
    fields = {"topic": topic, "queueId": "0"}
    pull = {"consumerGroup": "TOOLS_CONSUMER", **fields, "queueOffset": "0", "maxMsgNums": "1"}
    pull |= {"sysFlag": "6", "commitOffset": "0", "suspendTimeoutMillis": "50000"}
    pull |= {"subscription": "*", "subVersion": "0"}
    assert probe.call(Frame(11, pull)).code == 0, "delivered after a second"

    def shown() -> int:
        return DelayOffsetSerializeWrapper.from_json(probe.call(Frame(45)).body).offset_table.get(
            1, 0
        )

    assert until(lambda: shown() > 0)

"""Limits on names that clients create, and the broker's answers beyond the limits.

Both data planes give the same answers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from mqcommon.wire.bodies.groups import GroupConfig
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe, ask
from mqserver.embedded.standalone import Standalone
from tests.e2e.conftest import PLANES
from tests.inside import context_of
from tests.server.native import pull_fields, send_fields

TOPIC = "Known"
GROUP = "known"
LIMITS = {
    "autoCreateTopicMax": "4",
    "autoCreateGroupMax": "11",
    "consumerOffsetMax": "6",
    "unknownGroupOffsetMax": "3",
    "queueLockMax": "6",
    "clientQueueLockMax": "4",
    "clientGroupMax": "3",
    "maxHeartbeatBytes": "4096",
}
"""A broker has seven groups of its own."""


@pytest.fixture(params=PLANES)
def mq(request: pytest.FixtureRequest) -> Iterator[Standalone]:
    with Standalone(settings={"dataPlane": request.param, **LIMITS}) as both:
        both.topic(TOPIC)
        create = Frame(200, body=json.dumps({"groupName": GROUP}).encode())
        assert ask(both.broker_address, create).code == 0
        yield both


@pytest.fixture
def broker(mq: Standalone) -> Iterator[Probe]:
    with Probe(mq.broker_address) as probe:
        yield probe


def commit(
    broker: Probe, group: str = GROUP, topic: str = TOPIC, queue_id: int = 0, offset: int = 1
) -> Frame:
    fields = {"consumerGroup": group, "topic": topic, "queueId": str(queue_id)}
    return broker.call(Frame(15, {**fields, "commitOffset": str(offset)}))


def committed(mq: Standalone) -> dict[str, dict[int, int]]:
    return context_of(mq).store.committed_all()


def test_unknown_groups_commit_up_to_a_limit_known_ones_always(
    mq: Standalone, broker: Probe
) -> None:
    for number in range(3):
        assert commit(broker, f"nobody-{number}").code == 0
    reply = commit(broker, "nobody-3")
    assert reply.code == 26
    assert reply.remark == (
        "subscription group not exist, nobody-3; the broker stores unknownGroupOffsetMax=3 "
        "committed offsets"
    )
    assert commit(broker, "nobody-0", offset=9).code == 0, "where it has one, it goes on"
    reply = commit(broker, topic="Nowhere")
    assert (reply.code, "topic[Nowhere] not exist" in (reply.remark or "")) == (17, True)
    reply = commit(broker, queue_id=4)
    assert (reply.code, "queueId[4] is illegal" in (reply.remark or "")) == (1, True)
    for queue_id in range(3):
        assert commit(broker, queue_id=queue_id).code == 0
    reply = commit(broker, queue_id=3)
    assert (reply.code, "consumerOffsetMax=6" in (reply.remark or "")) == (1, True)
    assert commit(broker, queue_id=2, offset=7).code == 0
    expected = {f"{TOPIC}@nobody-{n}": {0: 9 if n == 0 else 1} for n in range(3)}
    assert committed(mq) == {**expected, f"{TOPIC}@{GROUP}": {0: 1, 1: 1, 2: 7}}


def test_a_pull_is_answered_whether_its_offset_is_taken_or_not(
    mq: Standalone, broker: Probe
) -> None:
    def pull(queue_id: int) -> Frame:
        fields = pull_fields(0, consumerGroup=GROUP, topic=TOPIC, queueId=str(queue_id))
        return broker.call(Frame(11, {**fields, "sysFlag": "5", "commitOffset": "2"}))

    for number in range(3):
        assert commit(broker, f"nobody-{number}").code == 0
    assert [pull(queue_id).code for queue_id in range(4)] == [19] * 4
    assert committed(mq)[f"{TOPIC}@{GROUP}"] == {0: 2, 1: 2, 2: 2}


@pytest.mark.parametrize(
    ("group", "code"), [("../../x", 26), ("no good", 26), ("g" * 256, 26), ("a\0b", 1)]
)
def test_nobody_commits_for_a_group_of_an_illegal_name(
    mq: Standalone, broker: Probe, group: str, code: int
) -> None:
    assert commit(broker, group).code == code
    assert commit(broker, "legal", topic=f"%RETRY%{group}").code == 1
    assert committed(mq) == {}


def test_a_group_of_any_name_goes_on_where_it_was(mq: Standalone, broker: Probe) -> None:
    """RocketMQ's files accept any group name, so such a group may be in a store."""
    context_of(mq).store.commit("no good", TOPIC, 0, 5)
    assert commit(broker, "no good", offset=6).code == 0
    assert committed(mq) == {f"{TOPIC}@no good": {0: 6}}


def lock(broker: Probe, client: str, *queues: int, topic: str = TOPIC) -> Frame:
    rows = [{"brokerName": "broker-a", "queueId": one, "topic": topic} for one in queues]
    body = {"clientId": client, "consumerGroup": GROUP, "mqSet": rows}
    return broker.call(Frame(41, body=json.dumps(body).encode()))


def granted(reply: Frame) -> list[int]:
    return [row["queueId"] for row in json.loads(reply.body)["lockOKMQSet"]]


def test_locks_have_a_bound_for_each_client_and_for_all(broker: Probe) -> None:
    reply = lock(broker, "one", *range(5))
    assert (reply.code, granted(reply)) == (0, [0, 1, 2, 3])
    assert reply.remark == "some queues are not locked: clientQueueLockMax=4 is reached"
    reply = lock(broker, "two", *range(10, 14))
    assert (reply.code, granted(reply)) == (0, [10, 11])
    assert reply.remark == "some queues are not locked: queueLockMax=6 is reached"
    reply = lock(broker, "three", 20)
    assert (reply.code, reply.body) == (1, b"")
    assert "queueLockMax=6" in (reply.remark or "")
    reply = lock(broker, "one", *range(4))
    assert (reply.code, reply.remark, granted(reply)) == (0, None, [0, 1, 2, 3]), "renewed"


@pytest.mark.parametrize(("client", "topic"), [("c" * 300, TOPIC), ("c", "T" * 3_000), ("c", "\0")])
def test_names_of_locks_are_names(broker: Probe, client: str, topic: str) -> None:
    assert lock(broker, client, 0, topic=topic).code == 1


def send(broker: Probe, topic: str) -> Frame:
    return broker.call(Frame(310, send_fields(b=topic), b"x"))


def test_sends_create_topics_up_to_a_number(mq: Standalone, broker: Probe) -> None:
    for name in ("One", "Two", "Three"):
        assert send(broker, name).code == 0
    reply = send(broker, "Four")
    assert reply.code == 17
    assert "autoCreateTopicMax=4" in (reply.remark or "")
    assert reply.fields["MSG_REGION"] == "DefaultRegion", "as every reply to a send"
    assert send(broker, "One").code == 0
    assert send(broker, f"%RETRY%{GROUP}").code == 0, "it belongs to a group that is there"
    mq.topic("Four")
    assert send(broker, "Four").code == 0


def beat(broker: Probe, *groups: str, producers: tuple[str, ...] = ()) -> Frame:
    body = {
        "clientID": "c@1",
        "consumerDataSet": [{"groupName": one, "subscriptionDataSet": []} for one in groups],
        "producerDataSet": [{"groupName": one} for one in producers],
    }
    return broker.call(Frame(34, body=json.dumps(body).encode()))


def members(broker: Probe, group: str) -> int:
    return broker.call(Frame(38, {"consumerGroup": group})).code


def test_clients_create_groups_up_to_a_number(mq: Standalone, broker: Probe) -> None:
    assert beat(broker, "one", "two").code == 0
    with Probe(mq.broker_address) as other:
        reply = other.call(Frame(11, pull_fields(0, consumerGroup="three", topic=TOPIC)))
        assert reply.code in (19, 24), "a pull creates its group"
        reply = beat(other, "four", GROUP)
        assert reply.code == 26
        assert "autoCreateGroupMax=11" in (reply.remark or "")
        assert members(other, GROUP) == 0, "there is room for a group that is there"
        assert members(other, "four") == 1
        reply = other.call(Frame(11, pull_fields(0, consumerGroup="five", topic=TOPIC)))
        assert (reply.code, "autoCreateGroupMax=11" in (reply.remark or "")) == (26, True)
        reply = send(other, "%RETRY%six")
        assert (reply.code, "autoCreateGroupMax=11" in (reply.remark or "")) == (26, True)
    topics = context_of(mq).topics.wrapper().topic_config_table
    assert not {"%RETRY%four", "%RETRY%five", "%RETRY%six"} & topics.keys()


def test_a_heartbeat_brings_so_many_groups(broker: Probe) -> None:
    reply = beat(broker, "one", "two", producers=("three", "four"))
    assert (reply.code, "clientGroupMax=3" in (reply.remark or "")) == (1, True)
    assert members(broker, "one") == 1
    assert beat(broker, "one").code == 0
    assert beat(broker, producers=("two", "three")).code == 0
    reply = beat(broker, "two")
    assert (reply.code, "clientGroupMax" in (reply.remark or "")) == (1, True)


def test_a_heartbeat_is_so_long(broker: Probe) -> None:
    reply = beat(broker, producers=("x" * 5_000,))
    assert (reply.code, "maxHeartbeatBytes=4096" in (reply.remark or "")) == (1, True)


def test_what_was_refused_is_refused_again(broker: Probe) -> None:
    """The native plane answers a heartbeat only if Python has accepted the same one before."""
    assert [beat(broker, *map(str, range(4))).code for _ in range(3)] == [1, 1, 1]


@pytest.mark.parametrize("name", ["../../x", "no good", "g" * 256])
def test_illegal_names_are_created_nowhere(mq: Standalone, broker: Probe, name: str) -> None:
    assert beat(broker, name, producers=(name,)).code == 0, "skipped, as RocketMQ does"
    assert members(broker, name) == 1
    assert broker.call(Frame(204, {"producerGroup": name, "topic": TOPIC})).code == 1
    assert broker.call(Frame(200, body=json.dumps({"groupName": name}).encode())).code == 1
    pull = Frame(11, pull_fields(0, consumerGroup=name, topic=TOPIC))
    assert broker.call(pull).code == 26
    back = {"group": name, "offset": "0", "delayLevel": "0", "originTopic": TOPIC}
    assert broker.call(Frame(36, back)).code == 26
    assert send(broker, name).code == 1
    create = {"topic": name, "defaultTopic": "TBW102", "perm": "6", "readQueueNums": "1"}
    create |= {"writeQueueNums": "1", "topicFilterType": "SINGLE_TAG"}
    assert broker.call(Frame(17, create)).code == 1
    context = context_of(mq)
    assert name not in context.groups.all().subscription_group_table
    assert not [one for one in context.topics.wrapper().topic_config_table if name in one]


def send_back(broker: Probe, group: str, level: int) -> Frame:
    sent = send(broker, TOPIC)
    assert sent.code == 0
    offset = int(sent.fields["msgId"][16:], 16)
    back = {"group": group, "offset": str(offset), "delayLevel": str(level), "originTopic": TOPIC}
    return broker.call(Frame(36, back))


@pytest.mark.parametrize("length", [249, 255])
def test_a_new_group_has_a_retry_topic_that_fits_a_folder(
    mq: Standalone, broker: Probe, length: int
) -> None:
    name, longest = "g" * length, "h" * 248
    reason = (
        f"the group has {length} characters, and its retry topic would have {length + 7} bytes, "
        "which is too long for a folder: use at most 248 characters"
    )
    refused = (26, f"subscription group not exist, {name}; {reason}")
    reply = beat(broker, name, GROUP)
    assert (reply.code, reply.remark) == refused
    assert members(broker, GROUP) == 0, "the other group is taken"
    assert members(broker, name) == 1
    replies = [
        commit(broker, name),
        broker.call(Frame(11, pull_fields(0, consumerGroup=name, topic=TOPIC))),
        send_back(broker, name, 0),
    ]
    assert [(one.code, one.remark) for one in replies] == [refused] * 3
    reply = broker.call(Frame(200, body=json.dumps({"groupName": name}).encode()))
    assert (reply.code, reply.remark) == (1, reason)
    assert beat(broker, producers=(name,)).code == 0, "a producer has no retry topic"
    assert beat(broker, longest).code == 0
    assert commit(broker, longest).code == 0
    context = context_of(mq)
    assert name not in context.groups.all().subscription_group_table
    made = [one for one in context.topics.wrapper().topic_config_table if one.startswith("%RETRY%")]
    assert set(made) == {f"%RETRY%{longest}", f"%RETRY%{GROUP}"}


def test_a_group_of_a_long_name_that_is_there_goes_on(mq: Standalone, broker: Probe) -> None:
    """RocketMQ's files accept such a name. Its retry topic fits no record: send-backs fail."""
    name = "g" * 255
    context_of(mq).groups.put(GroupConfig(name))
    assert beat(broker, name).code == 0
    assert members(broker, name) == 0
    assert commit(broker, name).code == 0
    assert broker.call(Frame(200, body=json.dumps({"groupName": name}).encode())).code == 0
    for level, topic in ((0, f"%RETRY%{name}"), (-1, f"%DLQ%{name}")):
        reply = send_back(broker, name, level)
        assert (reply.code, reply.remark) == (
            1,
            f"MESSAGE_ILLEGAL: topic {topic} has {len(topic)} bytes; the topic of a message may "
            "have at most 127",
        )

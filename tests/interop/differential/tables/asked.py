"""Requests of the broker to clients: 40, 220, 221, 307, 309 and 326, frame by frame."""

from __future__ import annotations

from dataclasses import replace

from tests.interop.differential.case import Answer, Case, body_of
from tests.interop.differential.tables.pull import group
from tests.interop.differential.tables.send import LETTERS, create, send

TOPIC, GROUP = "AskedTopic", "asked_group"
REPLIES = "DefaultCluster_REPLY_TOPIC"
STATUS = (
    b'{"consumerTable":{},"messageQueueTable":'
    b'{{"brokerName":"broker-a","queueId":0,"topic":"AskedTopic"}:5}}'
)
INFO = body_of({"properties": {"PROP_CLIENT_VERSION": "V4_9_7"}, "subscriptionSet": []})
DONE = body_of({"autoCommit": True, "consumeResult": "CR_SUCCESS", "order": False})
PAIRS = "MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01asker@1\x02CORRELATION_ID\x015"


def joins(name: str, member: str, topics: tuple[str, ...] = (TOPIC,), **more: object) -> Case:
    """A heartbeat of a member on its own connection."""
    consumer = {
        "groupName": GROUP, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False,
        "subscriptionDataSet": [
            {"topic": topic, "subString": "*", "subVersion": 1} for topic in topics
        ],
    }  # fmt: skip
    data = {"clientID": member, "consumerDataSet": [{**consumer, **more}], "producerDataSet": []}
    return Case(name, 34, None, body_of(data), connection=member)


def leaves(name: str, member: str) -> Case:
    """UNREGISTER_CLIENT."""
    fields = {"clientID": member, "consumerGroup": GROUP}
    return Case(name, 35, fields, connection=member)


def heard(case: Case, by: str, code: int, answer: Answer | None = None) -> Case:
    """The case, with the request that one of the clients gets because of it."""
    return replace(case, hears=(by, code), answer=answer)


def nobody(case: Case, by: str, code: int) -> Case:
    """The case, because of which that client hears nothing."""
    return replace(case, hears=(by, code), deaf=True)


def ask(name: str, code: int, **fields: str) -> Case:
    return Case(name, code, fields)


def reset(name: str, **fields: str) -> Case:
    """INVOKE_BROKER_TO_RESET_OFFSET."""
    given = {"topic": TOPIC, "group": GROUP, "timestamp": "-1", "isForce": "true", **fields}
    return Case(name, 222, given)


def reply(name: str, **letters: str) -> Case:
    """SEND_REPLY_MESSAGE_V2 to the producer that asks."""
    fields = {**LETTERS, "b": REPLIES, "i": PAIRS, **letters}
    return Case(name, 325, fields, b"an answer", loose=("queueOffset",))


STATE = ask("status", 223, topic=TOPIC, group=GROUP)
RUNNING = ask("running", 307, consumerGroup=GROUP, clientId="one@1", jstackEnable="true")
DIRECT = ask("direct", 309, consumerGroup=GROUP, clientId="one@1", msgId="${asked.msgId}")
ASKER = body_of(
    {"clientID": "asker@1", "consumerDataSet": [], "producerDataSet": [{"groupName": "askers"}]}
)
OLD = reply("reply; V1")
LONG = {"a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
        "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
        "j": "reconsumeTimes", "k": "unitMode", "m": "batch"}  # fmt: skip

CASES = [
    create(TOPIC, queues="1"),
    replace(send("a message", b=TOPIC, i="KEYS\x01k\x02TAGS\x01A"), keep="asked"),
    Case("all there", 30, {"topic": TOPIC, "queueId": "0"}, until={"offset": "1"}),
    # 40: clients that join, leave, or change their topics
    heard(joins("one joins", "one@1"), "one@1", 40),
    nobody(joins("one again", "one@1"), "one@1", 40),
    heard(joins("two joins", "two@1"), "one@1", 40),
    heard(joins("two wants more", "two@1", (TOPIC, "AskedMore")), "one@1", 40),
    heard(joins("two wants less", "two@1"), "one@1", 40),
    nobody(joins("two changes its mode", "two@1", consumeType="CONSUME_ACTIVELY"), "one@1", 40),
    heard(leaves("two leaves", "two@1"), "one@1", 40),
    group(GROUP, notifyConsumerIdsChangedEnable=False),
    nobody(joins("two joins unheard", "two@1"), "one@1", 40),
    nobody(leaves("two leaves unheard", "two@1"), "one@1", 40),
    # 220
    ask("commit", 15, consumerGroup=GROUP, topic=TOPIC, queueId="0", commitOffset="0"),
    heard(reset("reset to the end"), "one@1", 220),
    heard(reset("reset to the start", timestamp="0"), "one@1", 220),
    heard(reset("reset, not forced", isForce="false"), "one@1", 220),
    heard(replace(reset("reset by C++"), language=1), "one@1", 220),
    heard(replace(reset("reset in binary"), serialize=1), "one@1", 220),
    # 221
    heard(STATE, "one@1", 221, Answer(body=STATUS)),
    heard(replace(STATE, name="status, refused"), "one@1", 221, Answer(1, "no")),
    heard(replace(STATE, name="status, no body"), "one@1", 221, Answer()),
    nobody(STATE.but("status of a stranger", clientAddr="nobody"), "one@1", 221),
    heard(STATE.but("status by name", clientAddr="one@1"), "one@1", 221, Answer(body=STATUS)),
    # 307
    heard(RUNNING, "one@1", 307, Answer(body=INFO)),
    heard(replace(RUNNING, name="running, refused"), "one@1", 307, Answer(1, "unknown group")),
    heard(RUNNING.but("running, no stack", jstackEnable=None), "one@1", 307, Answer(body=INFO)),
    heard(RUNNING.but("running, a field more", x="1"), "one@1", 307, Answer(fields={"a": "b"})),
    heard(replace(RUNNING, name="running in binary", serialize=1), "one@1", 307, Answer(body=INFO)),
    # 309
    heard(DIRECT, "one@1", 309, Answer(body=DONE)),
    heard(replace(DIRECT, name="direct, refused"), "one@1", 309, Answer(1, "no such group")),
    nobody(DIRECT.but("direct, no message", msgId=None), "one@1", 309),
    heard(DIRECT.but("direct, topic too", topic=TOPIC), "one@1", 309, Answer(body=DONE)),
    # 326
    Case("asker", 34, None, ASKER, connection="asker"),
    heard(reply("reply"), "asker", 326, Answer()),
    heard(reply("reply, not taken", e="0"), "asker", 326, Answer(1, "no such request")),
    heard(reply("reply, compressed", f="1"), "asker", 326, Answer()),
    heard(reply("reply, unit", k="true", j="2"), "asker", 326, Answer()),
    heard(reply("reply, queue -1", e="-1"), "asker", 326, Answer()),
    heard(
        replace(OLD, code=324, fields={LONG[key]: value for key, value in OLD.fields.items()}),
        "asker", 326, Answer(),
    ),
    nobody(reply("reply to a stranger", i=PAIRS.replace("asker", "stranger")), "asker", 326),
    leaves("one leaves", "one@1"),
]  # fmt: skip

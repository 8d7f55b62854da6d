"""Broker: sends of all kinds (10, 310, 320), batches, replies (324, 325)."""

from __future__ import annotations

import struct
from dataclasses import replace

from tests.interop.differential.case import Case, spoiled

TOPIC = "SendTopic"
V1 = {
    "a": "producerGroup", "b": "topic", "c": "defaultTopic", "d": "defaultTopicQueueNums",
    "e": "queueId", "f": "sysFlag", "g": "bornTimestamp", "h": "flag", "i": "properties",
    "j": "reconsumeTimes", "k": "unitMode", "l": "maxReconsumeTimes", "m": "batch", "n": "bname",
}  # fmt: skip
LETTERS = {"a": "p", "b": TOPIC, "c": "TBW102", "d": "4", "e": "0", "f": "0", "g": "1", "h": "0"}
LETTERS |= {"i": "KEYS\x01k1\x02TAGS\x01A", "j": "0", "k": "false", "m": "false"}


def create(topic: str, perm: str = "6", queues: str = "4") -> Case:
    """UPDATE_AND_CREATE_TOPIC."""
    fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": queues}
    fields |= {"writeQueueNums": queues, "perm": perm, "topicFilterType": "SINGLE_TAG"}
    return Case(f"create {topic}", 17, {**fields, "topicSysFlag": "0", "order": "false"})


def send(name: str, body: bytes = b"hello", code: int = 310, **letters: str) -> Case:
    """SEND_MESSAGE_V2."""
    return Case(name, code, {**LETTERS, **letters}, body)


def item(body: bytes, properties: bytes = b"", total: int | None = None) -> bytes:
    """One message of a batch."""
    rest = struct.pack(">iiii", 0, 0, 0, len(body)) + body
    rest += struct.pack(">h", len(properties)) + properties
    return struct.pack(">i", len(rest) + 4 if total is None else total) + rest


def batch(name: str, body: bytes, **letters: str) -> Case:
    """SEND_BATCH_MESSAGE."""
    case = send(name, body, 320, **{"m": "true", "i": "WAIT\x01true", **letters})
    return replace(case, loose=("queueOffset",)) if letters.get("b") == "SendBad" else case


GOOD = send("send")
# The messages that spoiled sends store depend on which sends are refused.
LOOSE = {"loose": ("queueOffset",)}
BAD = replace(send("send", b="SendBad"), **LOOSE)
OLD = Case("send; V1", 10, {V1[key]: value for key, value in LETTERS.items()}, b"v1")
TWO = item(b"one") + item(b"two", b"TAGS\x01B")
SYSTEM = ("SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC")
SYSTEM += ("TRANS_CHECK_MAX_TIME_TOPIC", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT", "TBW102")
SYSTEM += ("BenchmarkTest", "DefaultCluster", "broker-a", "RMQ_SYS_TRACE_TOPIC", "rmq_sys_x")
PROPERTIES = {
    "trailing separator": "TAGS\x01A\x02KEYS\x01rk1\x02",
    "no value": "TAGS\x01\x02KEYS\x01k",
    "no name": "\x01v\x02KEYS\x01k",
    "no separator": "whatever",
    "separators only": "\x02\x02\x01\x01",
    "empty": "",
    "delay 77": "DELAY\x0177",
    "delay -1": "DELAY\x01-1",
    "delay 0": "DELAY\x010",
    "delay a word": "DELAY\x01abc",
    "delay huge": "DELAY\x01" + "9" * 20,
    "not to wait": "WAIT\x01false",
    "wait a word": "WAIT\x01maybe",
    "non-ASCII": "TAGS\x01标签\x02KEYS\x01é",
    "over the limit": "big\x01" + "y" * 32_767,
    "cluster of one's own": "CLUSTER\x01mine",
    "a real topic of one's own": "REAL_TOPIC\x01x\x02REAL_QID\x017",
}
REPLY = {"i": "MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01nobody@1\x02CORRELATION_ID\x011"}
REPLY_TOPIC = {"b": "DefaultCluster_REPLY_TOPIC"}

LAST_CREATED = Case(
    "the last created",
    30,
    {"topic": "BrandNew7", "queueId": "0"},
    until={"offset": "1"},
    until_again={"offset": "2"},
)

CASES = [
    create(TOPIC),
    create("SendBad"),
    GOOD,
    OLD,
    replace(GOOD, name="send; binary header", serialize=1),
    send("queue -1 of one", b="SendOne", d="1", e="-1"),
    *spoiled(BAD, numbers=("d", "e", "f", "g", "h", "j"), words=("a", "b", "c", "i")),
    *spoiled(
        replace(OLD.but(OLD.name, topic="SendBad"), **LOOSE),
        numbers=("queueId", "sysFlag", "bornTimestamp", "flag", "defaultTopicQueueNums"),
        words=("producerGroup", "topic", "defaultTopic"),
    ),
    *(
        replace(case, name=f"{case.name}; binary", serialize=1)
        for case in spoiled(replace(BAD, name="e"), numbers=("e",))
    ),
    BAD.but("m a word", m="maybe"),
    BAD.but("k a word", k="maybe"),
    BAD.but("l a word", l="abc"),
    send("queue too large", e="99"),
    send("queue int max", e="2147483647"),
    send("sysFlag all", f="2147483647"),
    send("topic of 127", b="t" * 127),
    send("topic of 128", b="t" * 128),
    send("topic of 300", b="t" * 300),
    send("topic with a NUL", b="a\x00b"),
    send("topic of dots", b=".."),
    send("topic climbs", b="../../../etc"),
    *(send(f"to {topic}", b=topic, e="0") for topic in SYSTEM),
    send("unknown template", b="BrandNew1", c="NoTemplate"),
    send("template without inherit", b="BrandNew2", c=TOPIC),
    send("created by the send", b="BrandNew3"),
    send("created with 99", b="BrandNew4", d="99"),
    send("created with 0", b="BrandNew5", d="0"),
    send("created with -1", b="BrandNew6", d="-1"),
    send("created, unit", b="BrandNew7", k="true"),
    LAST_CREATED,
    *(
        Case(f"queues of {topic}", 202, {"topic": topic})
        for topic in ("BrandNew3", "BrandNew4", "BrandNew5", "BrandNew7")
    ),
    send("no body", b""),
    send("body at the limit", b"x" * 65_536),
    send("body over the limit", b"x" * 65_537),
    *(send(f"properties: {name}", i=text) for name, text in PROPERTIES.items()),
    create("SendNoRead", perm="2"),
    create("SendNoWrite", perm="4"),
    send("topic without R", b="SendNoRead"),
    send("topic without W", b="SendNoWrite"),
    send("320, no batch", b"plain", 320),
    send("310, a batch", TWO, m="true"),
    batch("batch", TWO),
    batch("batch of one", item(b"x")),
    batch("batch, delayed", TWO, i="DELAY\x011"),
    batch("batch, transaction", TWO, i="TRAN_MSG\x01true"),
    batch("batch, sysFlag prepared", TWO, f="4"),
    batch("batch, no body", b"", b="SendBad"),
    batch("batch, cut", TWO[:-3], b="SendBad"),
    batch("batch, two bytes", b"\0\0", b="SendBad"),
    batch("batch, total too large", item(b"x", total=1000), b="SendBad"),
    batch("batch, total negative", item(b"x", total=-5), b="SendBad"),
    batch("batch, total zero", item(b"x", total=0), b="SendBad"),
    batch(
        "batch, body length huge",
        struct.pack(">iiiii", 22, 0, 0, 0, 2**31 - 1) + b"x\0\0",
        b="SendBad",
    ),
    batch(
        "batch, body length negative",
        struct.pack(">iiiii", 22, 0, 0, 0, -1) + b"x\0\0",
        b="SendBad",
    ),
    batch("batch, item over the limit", item(b"x" * 65_537)),
    batch("batch, unknown topic", TWO, b="BrandNew8"),
    batch("batch, to a retry topic", TWO, b="%RETRY%nobody"),
    batch("batch, queue too large", TWO, e="99"),
    send("retry topic of unknown group", b="%RETRY%send_unknown"),
    send("retry topic, 16 of 16", b="%RETRY%send_unknown", j="16", l="16"),
    send("retry topic, 16, no limit", b="%RETRY%send_unknown", j="16"),
    send("retry topic, -1", b="%RETRY%send_unknown", j="-1", l="16"),
    send("retry topic alone", b="%RETRY%"),
    send("dead-letter topic", b="%DLQ%send_unknown"),
    send("reply", code=325, **REPLY_TOPIC, **REPLY),
    send("reply without requester", code=325, i="MSG_TYPE\x01reply", **REPLY_TOPIC),
    send("reply to an unknown topic", code=325, b="NoSuch_REPLY", **REPLY),
    Case(
        "reply; V1",
        324,
        {V1[key]: value for key, value in {**LETTERS, **REPLY_TOPIC, **REPLY}.items()},
        b"r",
    ),
    *spoiled(
        replace(send("bad reply", code=325, **REPLY_TOPIC, **REPLY), **LOOSE),
        numbers=("e", "f"),
        words=("a", "b"),
    ),
    replace(GOOD, name="send at the VIP port", server="vip"),
]

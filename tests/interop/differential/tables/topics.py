"""Broker: topics (17, 21, 202, 215, 305, 300) made, read and deleted."""

from __future__ import annotations

from dataclasses import replace

from tests.interop.differential.case import Case, spoiled
from tests.interop.differential.tables.send import SYSTEM, create, send

TOPIC = "AdminTopic"


def ask(name: str, code: int, **fields: str) -> Case:
    return Case(name, code, fields or None)


def made(name: str, **fields: str) -> Case:
    return create(TOPIC).but(name, **fields)


STATS = ask("stats", 202, topic=TOPIC)
DELETE = ask("delete", 215, topic=TOPIC)
# A number that Java takes for null or for a huge queue count would stop its later loops.
NUMBERS = ("topicSysFlag",)

CASES = [
    create(TOPIC),
    STATS,
    replace(create("AdminBinary"), serialize=1),
    made("again, fewer queues", readQueueNums="2", writeQueueNums="2"),
    replace(STATS, name="stats; fewer queues"),
    made("queues differ", readQueueNums="3", writeQueueNums="1"),
    replace(STATS, name="stats; queues differ"),
    send("send beyond the write queues", b=TOPIC, e="2"),
    made("perm 0", topic="AdminNone", perm="0"),
    made("perm 15", topic="AdminAll", perm="15"),
    made("multi tag", topic="AdminTags", topicFilterType="MULTI_TAG"),
    made("order", topic="AdminOrder", order="true"),
    made("unit", topic="AdminUnit", topicSysFlag="1"),
    *spoiled(create(TOPIC), numbers=NUMBERS, words=("topic", "topicFilterType")),
    made("no perm", perm=None, topic="AdminBad"),
    made("perm a word", perm="rw", topic="AdminBad"),
    made("no read queues", readQueueNums=None, topic="AdminBad"),
    made("read queues a word", readQueueNums="many", topic="AdminBad"),
    made("no default topic", defaultTopic=None, topic="AdminPlain"),
    *(made(f"name {name}", topic=name) for name in SYSTEM),
    made("name of 127", topic="a" * 127),
    made("name of 128", topic="a" * 128),
    made("retry topic", topic="%RETRY%admin_group"),
    ask("stats of nothing", 202, topic="NoSuchTopic"),
    *spoiled(ask("bad stats", 202, topic="NoSuchTopic"), words=("topic",)),
    ask("system topics", 305),
    ask("who consumes", 300, topic=TOPIC),
    *(ask(f"delete {name}", 215, topic=name) for name in SYSTEM),
    *spoiled(ask("delete unknown", 215, topic="NoSuchTopic"), words=("topic",)),
    DELETE,
    ask("stats of the deleted", 202, topic=TOPIC),
    replace(DELETE, name="delete twice"),
    made("made at the VIP port", topic="AdminVip"),
]

"""Broker: messages by key, by offset, and the consume queue (12, 33, 321)."""

from __future__ import annotations

from dataclasses import replace

from tests.interop.differential.case import Case, spoiled
from tests.interop.differential.tables.send import create, send

TOPIC = "QueryTopic"
KEY = {"topic": TOPIC, "key": "qk", "maxNum": "32", "beginTimestamp": "0"}
KEY |= {"endTimestamp": "9223372036854775807", "_UNIQUE_KEY_QUERY": "false"}
QUEUE = {"topic": TOPIC, "queueId": "0", "index": "0", "count": "3", "consumerGroup": "g"}


def ask(name: str, code: int, **fields: str) -> Case:
    return Case(name, code, fields or None)


QUERY = ask("query", 12, **KEY)
VIEW = ask("view", 33, offset="${viewed.phy}")
SLOTS = ask("queue", 321, **QUEUE)

CASES = [
    create(TOPIC),
    *(send(f"fill {number}", b=TOPIC, i=f"KEYS\x01qk k{number}") for number in range(3)),
    replace(send("viewed", b=TOPIC, i="UNIQ_KEY\x01ABCDEF\x02KEYS\x01qk"), keep="viewed"),
    Case("all there", 30, {"topic": TOPIC, "queueId": "0"}, until={"offset": "4"}),
    QUERY,
    replace(QUERY, name="query; binary header", serialize=1),
    QUERY.but("one of them", maxNum="1"),
    QUERY.but("none of them", maxNum="0"),
    QUERY.but("minus one", maxNum="-1"),
    QUERY.but("many", maxNum="1000000"),
    QUERY.but("another key", key="k1"),
    QUERY.but("no such key", key="nope"),
    QUERY.but("unknown topic", topic="NoSuchTopic"),
    QUERY.but("by unique key", key="ABCDEF", _UNIQUE_KEY_QUERY="true"),
    QUERY.but("times the wrong way", beginTimestamp="9223372036854775807", endTimestamp="0"),
    QUERY.but("long ago", endTimestamp="1"),
    *spoiled(
        QUERY,
        numbers=("maxNum", "beginTimestamp", "endTimestamp"),
        words=("topic", "key", "_UNIQUE_KEY_QUERY"),
    ),
    VIEW,
    replace(VIEW, name="view; binary header", serialize=1),
    ask("view beyond", 33, offset="1000000000"),
    ask("view -1", 33, offset="-1"),
    ask("view far below", 33, offset="-9223372036854775808"),
    *spoiled(VIEW, numbers=("offset",)),
    SLOTS,
    SLOTS.but("another group", consumerGroup="query_nobody"),
    SLOTS.but("index outside", index="1000000"),
    SLOTS.but("index -1", index="-1"),
    SLOTS.but("count 0", count="0"),
    SLOTS.but("count -1", count="-1"),
    SLOTS.but("count 1000", count="1000"),
    SLOTS.but("queue outside", queueId="99"),
    SLOTS.but("unknown topic of a queue", topic="QueryNever"),
    *spoiled(SLOTS, numbers=("queueId", "index", "count"), words=("consumerGroup",)),
    SLOTS.but("queue; topic of blanks", topic="query never"),
    SLOTS.but("queue; no topic", topic=None),
]

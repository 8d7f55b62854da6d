"""Broker: offsets of groups and queues (14, 15, 29 to 32, 43, 45, 222, 223, 303, 308, 314)."""

from __future__ import annotations

from dataclasses import replace

from tests.interop.differential.case import Case, spoiled
from tests.interop.differential.tables.send import create, send

TOPIC = "OffsetTopic"
QUEUE = {"topic": TOPIC, "queueId": "0"}
OWNED = {"consumerGroup": "offset_group", **QUEUE}


def ask(name: str, code: int, **fields: str) -> Case:
    return Case(name, code, fields or None)


QUERY = ask("query", 14, **OWNED)
COMMIT = ask("commit", 15, **OWNED, commitOffset="2")
TIMES = ask("search", 29, **QUEUE, timestamp="0")
RESET = {"topic": TOPIC, "group": "offset_group", "timestamp": "0", "isForce": "true"}
CODES = {"max": 30, "min": 31, "earliest": 32}
CLONE = {"srcGroup": "offset_group", "destGroup": "offset_clone", "topic": TOPIC}
ELSEWHERE = {
    "queue beyond": {"queueId": "4"},
    "queue -1": {"queueId": "-1"},
    "queue int max": {"queueId": "2147483647"},
    "unknown topic": {"topic": "NoSuchTopic"},
    "empty queue": {"queueId": "3"},
}

CASES = [
    create(TOPIC),
    *(send(f"fill {number}", b=TOPIC) for number in range(4)),
    Case("all there", 30, QUEUE, until={"offset": "4"}),
    ask("query before", 14, **OWNED),
    COMMIT,
    QUERY,
    replace(QUERY, name="query; binary header", serialize=1),
    replace(QUERY, name="query at the VIP port", server="vip"),
    ask("commit backwards", 15, **OWNED, commitOffset="1"),
    ask("query backwards", 14, **OWNED),
    ask("commit beyond", 15, **OWNED, commitOffset="1000000"),
    ask("query beyond", 14, **OWNED),
    ask("commit -5", 15, **OWNED, commitOffset="-5"),
    ask("query -5", 14, **OWNED),
    COMMIT.but("commit again"),
    *spoiled(QUERY, numbers=("queueId",), words=("topic", "consumerGroup")),
    *spoiled(
        COMMIT.but("commit bad", consumerGroup="offset_bad"),
        numbers=("queueId", "commitOffset"),
        words=("topic", "consumerGroup"),
    ),
    *(QUERY.but(f"query; {name}", **change) for name, change in ELSEWHERE.items()),
    *(
        COMMIT.but(f"commit; {name}", consumerGroup="offset_other", **change)
        for name, change in ELSEWHERE.items()
    ),
    *(
        case
        for name, code in CODES.items()
        for case in spoiled(ask(name, code, **QUEUE), numbers=("queueId",), words=("topic",))
    ),
    *(
        ask(f"{name}; {what}", code, **{**QUEUE, **change})
        for name, code in CODES.items()
        for what, change in ELSEWHERE.items()
    ),
    *(ask(f"{name} good", code, **QUEUE) for name, code in CODES.items()),
    TIMES,
    ask("search now", 29, **QUEUE, timestamp="9223372036854775807"),
    ask("search -1", 29, **QUEUE, timestamp="-1"),
    *spoiled(TIMES, numbers=("queueId", "timestamp"), words=("topic",)),
    *(TIMES.but(f"search; {name}", **change) for name, change in ELSEWHERE.items()),
    ask("all delay offsets", 45),
    ask("reset", 222, **RESET),
    *spoiled(ask("reset offline", 222, **RESET), numbers=("timestamp",), words=("topic", "group")),
    ask("reset unknown topic", 222, **{**RESET, "topic": "NoSuchTopic"}),
    ask("reset unknown group", 222, **{**RESET, "group": "offset_nobody"}),
    ask("status", 223, topic=TOPIC, group="offset_group"),
    *spoiled(ask("status offline", 223, topic=TOPIC, group="offset_nobody"), words=("topic",)),
    ask("time span", 303, topic=TOPIC, group="offset_group"),
    *spoiled(ask("bad time span", 303, topic=TOPIC, group="g"), words=("topic", "group")),
    ask("correction", 308, topic=TOPIC, compareGroup="offset_group"),
    *spoiled(
        ask("bad correction", 308, topic="NoSuchTopic", compareGroup="offset_nobody"),
        words=("topic", "compareGroup"),
    ),
    ask("clone", 314, **CLONE, offline="true"),
    ask("cloned", 14, **{**OWNED, "consumerGroup": "offset_clone"}),
    *spoiled(
        ask("bad clone", 314, srcGroup="offset_nobody", destGroup="offset_nobody", topic=TOPIC),
        words=("srcGroup", "destGroup", "topic"),
    ),
]

"""Broker: which statistics there are (315) after requests of all kinds; not their values."""

from __future__ import annotations

from dataclasses import replace

from tests.interop.differential.case import Case
from tests.interop.differential.tables.groups import BACK
from tests.interop.differential.tables.pull import group, pull
from tests.interop.differential.tables.send import TWO, batch, create, item, send
from tests.interop.differential.tables.transactions import HALF

TOPIC, GROUP, NOBODY = "CountedTopic", "counted_group", "counted_nobody"
BATCHES, DELAYED, HALVES = "CountedBatches", "CountedDelayed", "CountedHalves"
NAMES = (
    "TOPIC_PUT_NUMS", "TOPIC_PUT_SIZE", "GROUP_GET_NUMS", "GROUP_GET_SIZE", "SNDBCK_PUT_NUMS",
    "BROKER_PUT_NUMS", "BROKER_GET_NUMS", "QUEUE_PUT_NUMS", "QUEUE_PUT_SIZE", "QUEUE_GET_NUMS",
    "QUEUE_GET_SIZE", "GROUP_GET_LATENCY", "GROUP_GET_FALL_SIZE", "GROUP_GET_FALL_TIME",
    "GROUP_GET_FROM_DISK_NUMS", "GROUP_GET_FROM_DISK_SIZE", "BROKER_GET_FROM_DISK_NUMS",
    "BROKER_GET_FROM_DISK_SIZE", "COMMERCIAL_SEND_TIMES", "COMMERCIAL_RCV_TIMES", "NO_SUCH_NAME",
)  # fmt: skip
KEYS = (
    TOPIC, BATCHES, DELAYED, HALVES, "CountedNever", "SCHEDULE_TOPIC_XXXX", "DefaultCluster",
    "RMQ_SYS_TRANS_HALF_TOPIC", "RMQ_SYS_TRANS_OP_HALF_TOPIC", f"%RETRY%{GROUP}",
    f"%DLQ%{GROUP}", f"{TOPIC}@{GROUP}", f"{TOPIC}@{NOBODY}", f"{TOPIC}@0", f"{TOPIC}@1",
    f"{TOPIC}@0@{GROUP}", f"0@{TOPIC}@{GROUP}", f"1@{TOPIC}@{GROUP}", f"%DLQ%{GROUP}@{GROUP}",
    "SCHEDULE_TOPIC_XXXX@1", "SCHEDULE_TOPIC_XXXX@16",
)  # fmt: skip


def there(topic: str, count: int) -> Case:
    return Case(
        f"there: {topic}", 30, {"topic": topic, "queueId": "0"}, until={"offset": str(count)}
    )


def view(name: str, key: str) -> Case:
    return Case(f"{name} {key}", 315, {"statsName": name, "statsKey": key}, loose=("body",))


CASES = [
    *(create(topic) for topic in (TOPIC, BATCHES, DELAYED, HALVES)),
    group(GROUP),
    replace(send("sent", b=TOPIC), keep="counted"),
    batch("sent together", TWO + item(b"three"), b=BATCHES),
    send("delayed", b=DELAYED, i="DELAY\x0117"),
    replace(send("half", b=HALVES, f="4", i=HALF.format(key="h")), loose=("queueOffset",)),
    there(TOPIC, 1),
    pull("found", topic=TOPIC, consumerGroup=GROUP),
    pull("nothing there", topic=TOPIC, consumerGroup=GROUP, queueOffset="1"),
    pull("nothing in that queue", topic=TOPIC, consumerGroup=GROUP, queueId="1"),
    Case(
        "dead", 36,
        {**BACK, "offset": "${counted.phy}", "group": GROUP, "delayLevel": "-1",
         "originTopic": TOPIC},
    ),
    there(f"%DLQ%{GROUP}", 1),
    *(view(name, key) for name in NAMES for key in KEYS),
]  # fmt: skip

"""Broker: groups (200, 201, 207, 208, 317), retries sent back (36)."""

from __future__ import annotations

from dataclasses import replace

from tests.interop.differential.case import Case, body_of, spoiled, with_bad_bodies
from tests.interop.differential.tables.pull import group
from tests.interop.differential.tables.send import create, send

TOPIC = "GroupTopic"


def ask(name: str, code: int, **fields: str) -> Case:
    return Case(name, code, fields or None)


BACK = {"offset": "${sent.phy}", "group": "group_a", "delayLevel": "0", "originTopic": TOPIC}
BACK |= {"unitMode": "false", "maxReconsumeTimes": "16", "originMsgId": "id"}
STATS = ask("stats", 208, consumerGroup="group_a")

CASES = [
    create(TOPIC),
    replace(send("sent", b=TOPIC), keep="sent"),
    Case("all there", 30, {"topic": TOPIC, "queueId": "0"}, until={"offset": "1"}),
    group("group_a"),
    group("group_disabled", consumeEnable=False),
    group("group_no_retry", retryQueueNums=0),
    group("group_two_retries", retryQueueNums=2, retryMaxTimes=1),
    *with_bad_bodies(Case("bad group", 200)),
    group("", retryQueueNums=1),
    group("../../x"),
    group("g" * 300),
    Case("group of words", 200, None, body_of({"groupName": "group_w", "retryMaxTimes": "x"})),
    Case("group of a name", 200, None, body_of({"groupName": "group_n"})),
    ask("commit", 15, consumerGroup="group_a", topic=TOPIC, queueId="0", commitOffset="1"),
    STATS,
    ask("stats by topic", 208, consumerGroup="group_a", topic=TOPIC),
    ask("stats of unknown topic", 208, consumerGroup="group_a", topic="NoSuchTopic"),
    *spoiled(ask("bad stats", 208, consumerGroup="group_nobody"), words=("consumerGroup",)),
    *spoiled(ask("all stats of order topics", 317, isOrder="true"), words=("isOrder",)),
    ask("back", 36, **BACK),
    ask("back to the dead letters", 36, **{**BACK, "delayLevel": "-1"}),
    ask("back, too often", 36, **{**BACK, "maxReconsumeTimes": "0"}),
    ask("back, no retry queues", 36, **{**BACK, "group": "group_no_retry"}),
    ask("back, unknown group", 36, **{**BACK, "group": "group_never"}),
    ask("back, level 99", 36, **{**BACK, "delayLevel": "99"}),
    ask("back, unknown message", 36, **{**BACK, "offset": "1000000000"}),
    ask("back, offset -1", 36, **{**BACK, "offset": "-1"}),
    *spoiled(
        ask("bad back", 36, **{**BACK, "offset": "1000000000"}),
        numbers=("offset", "delayLevel", "maxReconsumeTimes"),
        words=("group", "originTopic", "originMsgId"),
    ),
    ask("retry queue", 202, topic="%RETRY%group_a"),
    Case("all dead", 30, {"topic": "%DLQ%group_a", "queueId": "0"}, until={"offset": "2"}),
    ask("dead letters", 202, topic="%DLQ%group_a"),
    *spoiled(ask("delete unknown", 207, groupName="group_nobody"), words=("groupName",)),
    ask("delete", 207, groupName="group_no_retry", removeOffset="true"),
    ask("delete twice", 207, groupName="group_no_retry"),
]

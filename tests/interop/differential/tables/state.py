"""Broker: its whole state before the bad requests (21, 43, 45, 201, 317)."""

from __future__ import annotations

from tests.interop.differential.case import Case, body_of
from tests.interop.differential.tables.pull import group, heartbeat
from tests.interop.differential.tables.send import create, send

TOPIC = "StateTopic"
LOCKED = {"clientId": "c1", "consumerGroup": "state_group"}
LOCKED |= {"mqSet": [{"topic": TOPIC, "brokerName": "broker-a", "queueId": 0}]}


def ask(name: str, code: int, **fields: str) -> Case:
    return Case(name, code, fields or None)


def commit(name: str, queue_id: str, offset: str, group_name: str = "state_group") -> Case:
    fields = {"consumerGroup": group_name, "topic": TOPIC, "queueId": queue_id}
    return Case(name, 15, {**fields, "commitOffset": offset})


CASES = [
    ask("topics at first", 21),
    ask("groups at first", 201),
    ask("offsets at first", 43),
    ask("delay offsets at first", 45),
    ask("consume stats at first", 317, isOrder="false"),
    ask("system topics at first", 305),
    ask("producers at first", 328),
    ask("route of the cluster's topic", 202, topic="DefaultCluster"),
    create(TOPIC),
    send("send", b=TOPIC),
    send("send again", b=TOPIC, i="KEYS\x01k"),
    send("to a new topic", b="StateNew", d="2"),
    send("a delayed one", b=TOPIC, i="DELAY\x0118"),
    Case("all there", 30, {"topic": TOPIC, "queueId": "0"}, until={"offset": "2"}),
    group("state_group", retryQueueNums=2, retryMaxTimes=3),
    heartbeat("heartbeat", "state_online", "A || B", topic=TOPIC),
    commit("commit", "0", "1"),
    commit("commit elsewhere", "3", "0"),
    commit("commit of another", "0", "2", "state_other"),
    Case("lock", 41, None, body_of(LOCKED)),
    ask("topics", 21),
    ask("groups", 201),
    ask("offsets", 43),
    ask("topic's queues", 202, topic=TOPIC),
    ask("new topic's queues", 202, topic="StateNew"),
    ask("who consumes", 300, topic=TOPIC),
    ask("group's stats", 208, consumerGroup="state_group"),
    ask("group's stats of a topic", 208, consumerGroup="state_group", topic=TOPIC),
    ask("all consume stats", 317, isOrder="false"),
    ask("consume stats of order topics", 317, isOrder="true"),
    ask("time span", 303, topic=TOPIC, group="state_group"),
    ask("correction", 308, topic=TOPIC, compareGroup="state_group"),
    ask("connections", 203, consumerGroup="state_online"),
    ask("producers", 328),
    ask("clean expired queues", 306),
    ask("clean unused topics", 316),
    ask("delete expired files", 329),
    ask("clean; fields", 306, noSuchField="1"),
    Case("access lists, off", 54, silent=True),
    ask("account, off", 50, accessKey="someone"),
    ask("delete account, off", 51, accessKey="someone"),
    ask("white list, off", 53, globalWhiteAddrs="1.2.3.4"),
    Case("access versions, off", 52, silent=True),
    ask("topics at last", 21),
]

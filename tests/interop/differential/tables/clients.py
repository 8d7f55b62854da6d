"""Broker: heartbeats, members, connections (34, 35, 38, 46, 203, 204, 307, 309, 328)."""

from __future__ import annotations

from dataclasses import replace

from tests.interop.differential.case import Case, body_of, spoiled, with_bad_bodies
from tests.interop.differential.tables.pull import heartbeat
from tests.interop.differential.tables.send import create

TOPIC = "ClientTopic"


def ask(name: str, code: int, **fields: str) -> Case:
    return Case(name, code, fields or None)


def beat(name: str, group: str = "client_group", **consumer: object) -> Case:
    """A heartbeat whose consumer has some members changed."""
    data = {
        "groupName": group, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False,
        "subscriptionDataSet": [{"topic": TOPIC, "subString": "*", "subVersion": 1}],
    }  # fmt: skip
    body = {"clientID": "c@1", "consumerDataSet": [{**data, **consumer}], "producerDataSet": []}
    return Case(name, 34, None, body_of(body))


def check(name: str, expression: str, kind: str) -> Case:
    """CHECK_CLIENT_CONFIG."""
    subscription = {"topic": TOPIC, "subString": expression, "expressionType": kind}
    data = {"clientId": "c@1", "group": "g", "subscriptionData": subscription}
    return Case(name, 46, None, body_of(data))


PRODUCER = body_of(
    {"clientID": "p@1", "consumerDataSet": [], "producerDataSet": [{"groupName": "client_makers"}]}
)
LIST = ask("list", 38, consumerGroup="client_group")
LEAVE = {"clientID": "c@1", "consumerGroup": "client_group"}
RUNNING = {"consumerGroup": "client_nobody", "clientId": "x", "jstackEnable": "false"}
DIRECT = {"consumerGroup": "client_nobody", "clientId": "x"}
DIRECT |= {"msgId": "7F00000100002A9F0000000000000000"}

CASES = [
    create(TOPIC),
    ask("list of nobody", 38, consumerGroup="client_nobody"),
    beat("heartbeat"),
    LIST,
    replace(LIST, name="list; binary header", serialize=1),
    replace(LIST, name="list at the VIP port", server="vip"),
    *spoiled(LIST, words=("consumerGroup",)),
    ask("connections", 203, consumerGroup="client_group"),
    *spoiled(ask("bad connections", 203, consumerGroup="client_no"), words=("consumerGroup",)),
    Case("producer heartbeat", 34, None, PRODUCER, connection="producer"),
    ask("producers", 204, producerGroup="client_makers"),
    *spoiled(ask("bad producers", 204, producerGroup="client_no"), words=("producerGroup",)),
    heartbeat("heartbeat, second topic", "client_two", topic="NoSuchTopic"),
    *with_bad_bodies(Case("bad heartbeat", 34)),
    Case("heartbeat of nothing", 34, None, body_of({"clientID": "c@9"})),
    Case("heartbeat without id", 34, None, body_of({"producerDataSet": []})),
    beat("no group name", groupName=None),
    beat("empty group name", groupName=""),
    beat("group climbs", groupName="../../x"),
    beat("group of 300", groupName="g" * 300),
    beat("unknown model", "client_m", messageModel="NOPE"),
    beat("unknown type", "client_t", consumeType="NOPE"),
    beat("unknown start", "client_w", consumeFromWhere="NOPE"),
    beat("no subscriptions", "client_s", subscriptionDataSet=None),
    beat("subscription without topic", "client_u", subscriptionDataSet=[{"subString": "*"}]),
    beat("subscriptions a word", "client_x", subscriptionDataSet="x"),
    ask("connections of bad", 203, consumerGroup="client_m"),
    ask("connections of climbing", 203, consumerGroup="../../x"),
    check("check tag", "A", "TAG"),
    check("check sql", "a > 1", "SQL92"),
    check("check wrong sql", "a > > 1", "SQL92"),
    check("check empty sql", "", "SQL92"),
    check("check unknown", "a", "XPATH"),
    *with_bad_bodies(Case("bad check", 46)),
    ask("running info offline", 307, **RUNNING),
    *spoiled(ask("bad running info", 307, **RUNNING), words=("consumerGroup", "clientId")),
    ask("direct offline", 309, **DIRECT),
    *spoiled(ask("bad direct", 309, **DIRECT), words=("consumerGroup", "clientId", "msgId")),
    ask("status offline", 223, topic=TOPIC, group="client_nobody"),
    ask("who consumes", 300, topic=TOPIC),
    ask("time span", 303, topic=TOPIC, group="client_group"),
    *spoiled(ask("bad who", 300, topic="NoSuchTopic"), words=("topic",)),
    *spoiled(
        Case("bad leave", 35, {**LEAVE, "consumerGroup": "client_nobody"}),
        words=("clientID", "consumerGroup"),
    ),
    Case("leave", 35, LEAVE),
    ask("list after leaving", 38, consumerGroup="client_group"),
    Case("leave twice", 35, LEAVE),
    Case("producer leaves", 35, {"clientID": "p@1", "producerGroup": "client_makers"},
         connection="producer"),
    ask("producers after leaving", 204, producerGroup="client_makers"),
    Case("leave without groups", 35, {"clientID": "p@1"}),
]  # fmt: skip

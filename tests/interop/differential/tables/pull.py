"""Broker: pulls (11) that find, find nothing, may not, or make no sense."""

from __future__ import annotations

from dataclasses import replace

from tests.interop.differential.case import Case, body_of, spoiled
from tests.interop.differential.tables.send import create, send

TOPIC = "PullTopic"
PULL = {
    "consumerGroup": "pull_group", "topic": TOPIC, "queueId": "0", "queueOffset": "0",
    "maxMsgNums": "2", "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0",
    "subscription": "*", "subVersion": "0", "expressionType": "TAG",
}  # fmt: skip


def pull(name: str, **fields: str) -> Case:
    """A pull that brings its subscription."""
    return Case(name, 11, {**PULL, **fields})


def subscribed(name: str, group: str, topic: str = TOPIC, **fields: str) -> Case:
    """A pull that relies on the heartbeat's subscription."""
    return pull(name, consumerGroup=group, topic=topic, sysFlag="0", **fields)


def heartbeat(
    name: str,
    group: str,
    expression: str = "*",
    kind: str = "TAG",
    topic: str = TOPIC,
    model: str = "CLUSTERING",
) -> Case:
    """HEART_BEAT of one consumer."""
    subscription = {"topic": topic, "subString": expression, "subVersion": 5}
    subscription |= {"expressionType": kind, "tagsSet": [], "codeSet": []}
    consumer = {
        "groupName": group,
        "consumeType": "CONSUME_PASSIVELY",
        "messageModel": model,
        "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET",
        "subscriptionDataSet": [subscription],
        "unitMode": False,
    }
    data = {"clientID": f"{group}@1", "consumerDataSet": [consumer], "producerDataSet": []}
    return Case(name, 34, None, body_of(data))


def group(name: str, **changes: object) -> Case:
    """UPDATE_AND_CREATE_SUBSCRIPTIONGROUP."""
    config = {
        "brokerId": 0, "consumeBroadcastEnable": True, "consumeEnable": True,
        "consumeFromMinEnable": True, "groupName": name, "notifyConsumerIdsChangedEnable": True,
        "retryMaxTimes": 16, "retryQueueNums": 1, "whichBrokerWhenConsumeSlowly": 1,
    }  # fmt: skip
    return Case(f"group {name}", 200, None, body_of({**config, **changes}))


GOOD = pull("pull")
MAX = Case("max", 30, {"topic": TOPIC, "queueId": "0"}, until={"offset": "6"})
PROPERTIES = "TAGS\x01{tag}\x02n\x01{number}"

CASES = [
    create(TOPIC),
    create("PullEmpty"),
    create("PullNoRead", perm="2"),
    *(
        send(f"fill {number}", b=TOPIC, i=PROPERTIES.format(tag="AB"[number % 2], number=number))
        for number in range(6)
    ),
    MAX,
    GOOD,
    replace(GOOD, name="pull; binary header", serialize=1),
    pull("pull all", maxMsgNums="32"),
    pull("pull the last", queueOffset="5"),
    *spoiled(
        GOOD,
        numbers=("queueId", "queueOffset", "maxMsgNums", "sysFlag", "subVersion"),
        words=("topic", "consumerGroup", "expressionType"),
    ),
    *spoiled(pull("commit"), numbers=("commitOffset", "suspendTimeoutMillis")),
    pull("subscription missing").but("no subscription", subscription=None),
    pull("empty subscription", subscription=""),
    pull("tag A", subscription="A", maxMsgNums="32"),
    pull("tag A or B", subscription="A || B", maxMsgNums="32"),
    pull("tag unknown", subscription="Z"),
    pull("tag with blanks", subscription="  A  ||  "),
    pull("tag bars only", subscription="||"),
    pull("sql", subscription="n > 3", expressionType="SQL92", maxMsgNums="32"),
    pull("sql wrong", subscription="n > > 3", expressionType="SQL92"),
    pull("unknown language", subscription="n", expressionType="XPATH"),
    pull("at the end", queueOffset="6"),
    pull("beyond the end", queueOffset="7"),
    pull("far beyond", queueOffset="9223372036854775807"),
    pull("before the start", queueOffset="-1"),
    pull("far before", queueOffset="-9223372036854775808"),
    pull("no messages wanted", maxMsgNums="0"),
    pull("fewer than none", maxMsgNums="-1"),
    pull("empty queue", queueId="3"),
    pull("empty queue, offset 5", queueId="3", queueOffset="5"),
    pull("empty topic", topic="PullEmpty"),
    pull("queue beyond", queueId="4"),
    pull("queue -1", queueId="-1"),
    pull("queue int max", queueId="2147483647"),
    pull("unknown topic", topic="NoSuchTopic"),
    pull("topic climbs", topic="../../x"),
    pull("topic without R", topic="PullNoRead"),
    pull("new group", consumerGroup="pull_brand_new"),
    pull("group climbs", consumerGroup="../../x"),
    pull("class filter", sysFlag="12"),
    pull("lite pull", sysFlag="20"),
    pull("held briefly", queueOffset="6", sysFlag="6", suspendTimeoutMillis="100"),
    pull("commits", sysFlag="5", commitOffset="3"),
    Case("committed", 14, {"consumerGroup": "pull_group", "topic": TOPIC, "queueId": "0"}),
    pull("commits -1", sysFlag="5", commitOffset="-1"),
    Case("committed -1", 14, {"consumerGroup": "pull_group", "topic": TOPIC, "queueId": "0"}),
    subscribed("nobody online", "pull_nobody"),
    heartbeat("heartbeat", "pull_online"),
    subscribed("online", "pull_online", subVersion="5"),
    subscribed("online, newer", "pull_online", subVersion="6"),
    subscribed("online, other topic", "pull_online", topic="PullEmpty"),
    heartbeat("heartbeat sql", "pull_sql", "n > 3", "SQL92"),
    subscribed("online sql", "pull_sql", subVersion="5", expressionType="SQL92"),
    heartbeat("heartbeat bad sql", "pull_bad_sql", "n > > 3", "SQL92"),
    subscribed("online bad sql", "pull_bad_sql", subVersion="5", expressionType="SQL92"),
    group("pull_disabled", consumeEnable=False),
    pull("group disabled", consumerGroup="pull_disabled"),
    group("pull_no_broadcast", consumeBroadcastEnable=False),
    heartbeat("heartbeat broadcast", "pull_no_broadcast", model="BROADCASTING"),
    subscribed("broadcast disabled", "pull_no_broadcast", subVersion="5"),
    replace(GOOD, name="pull at the VIP port", server="vip"),
]

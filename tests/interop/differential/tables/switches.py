"""Settings that change while the broker runs (25), and what each of them changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.interop.differential.case import Case, body_of
from tests.interop.differential.tables.asked import joins, leaves
from tests.interop.differential.tables.clients import check
from tests.interop.differential.tables.pull import PULL, heartbeat
from tests.interop.differential.tables.send import TWO, batch, create, send

TOPIC = "SwitchTopic"
HALF = "TRAN_MSG\x01true\x02PGROUP\x01p"
PLAIN = send("send", b=TOPIC)
REPLY = send(
    "reply", code=325, b="DefaultCluster_REPLY_TOPIC",
    i="MSG_TYPE\x01reply\x02REPLY_TO_CLIENT\x01nobody@1",
)  # fmt: skip
BACK = {"offset": "${switched.phy}", "group": "switch_group", "delayLevel": "0",
        "originTopic": TOPIC, "unitMode": "false", "originMsgId": "x"}  # fmt: skip


def pull(name: str, **fields: str) -> Case:
    return Case(name, 11, {**PULL, "topic": TOPIC, "consumerGroup": "switch_group", **fields})


def switched(key: str, value: str, back: str, *cases: Case) -> Iterator[Case]:
    """The requests sent while a setting has another value."""
    yield Case(f"{key}={value}", 25, {}, f"{key}={value}\n".encode())
    for case in cases:
        yield replace(case, name=f"{key}={value}; {case.name}", loose=("queueOffset", "maxOffset"))
    yield Case(f"{key}={value}; undone", 25, {}, f"{key}={back}\n".encode())


MEMBER = joins("joins", "switch@1")
SQL = {"subscription": "n > 3", "expressionType": "SQL92"}

CASES = [
    create(TOPIC),
    replace(PLAIN, name="a message", keep="switched"),
    heartbeat("a group", "switch_group", topic=TOPIC),
    *switched(
        "autoCreateTopicEnable", "false", "true",
        send("to a new topic", b="SwitchNew1"), PLAIN,
        send("to a new topic of another's", b="SwitchNew2", c=TOPIC),
        send("to a new topic of the cluster's", b="SwitchNew3", c="DefaultCluster"),
        send("to a retry topic", b="%RETRY%switch_group"),
        batch("batch to a new topic", TWO, b="SwitchNew4"),
    ),
    *switched(
        "autoCreateSubscriptionGroup", "false", "true",
        pull("pull of a new group", consumerGroup="switch_new"),
        pull("pull of a system group", consumerGroup="CID_RMQ_SYS_switch"),
        heartbeat("heartbeat of a new group", "switch_new", topic=TOPIC),
        Case("its members", 38, {"consumerGroup": "switch_new"}),
        Case("back", 36, {**BACK, "group": "switch_new"}),
        send("to its retry topic", b="%RETRY%switch_new", e="0"),
    ),
    *switched(
        "brokerPermission", "4", "6", PLAIN, batch("batch", TWO, b=TOPIC), pull("pull"),
        Case("back", 36, BACK), REPLY, send("half", b=TOPIC, i=HALF, f="4"),
    ),
    *switched("brokerPermission", "2", "6", PLAIN, pull("pull"), Case("back", 36, BACK)),
    *switched(
        "rejectTransactionMessage", "true", "false", send("half", b=TOPIC, i=HALF, f="4"), PLAIN,
        batch("batch of halves", TWO, b=TOPIC, i=HALF),
    ),
    *switched("traceOn", "false", "true", PLAIN, send("bad queue", b=TOPIC, e="99"), REPLY),
    *switched("regionId", "Elsewhere", "DefaultRegion", PLAIN, REPLY),
    *switched(
        "enablePropertyFilter", "false", "true",
        check("sql", "a > 1", "SQL92"), check("tag", "A", "TAG"), pull("pull sql", **SQL),
        pull("pull by tag"),
        heartbeat("heartbeat sql", "switch_sql", "n > 3", "SQL92", topic=TOPIC),
        pull("pull of it", consumerGroup="switch_sql", sysFlag="0", **SQL),
    ),
    *switched("storeReplyMessageEnable", "false", "true", REPLY),
    *switched(
        "startAcceptSendRequestTimeStamp", "4000000000000", "0",
        PLAIN, batch("batch", TWO, b=TOPIC), REPLY, Case("back", 36, BACK), pull("pull"),
    ),
    *switched(
        "notifyConsumerIdsChangedEnable", "false", "true",
        replace(MEMBER, hears=("switch@1", 40), deaf=True), leaves("leaves", "switch@1"),
    ),
    *switched(
        "longPollingEnable", "false", "true",
        pull("held", queueOffset="${switched.queueOffset}", queueId="3", sysFlag="6",
             suspendTimeoutMillis="100"),
    ),
    Case("no pair", 25, {}, b"=\n"),
    Case("two of them", 25, {}, b"traceOn=true\nregionId=DefaultRegion\n"),
    Case("a comment", 25, {}, b"# nothing\n"),
    Case("an enumeration of another", 25, {}, body_of({"traceOn": True})),
]  # fmt: skip

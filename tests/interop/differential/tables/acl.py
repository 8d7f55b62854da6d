"""Access control: each permission class of each account, signatures, 50 to 54."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from tests.interop.differential.accounts import ADMIN, MUTE, OPEN, USER, WHITE
from tests.interop.differential.case import Case, body_of
from tests.interop.differential.tables.pull import PULL, group, heartbeat
from tests.interop.differential.tables.send import TWO, V1, create, item, send

TOPICS = ("AclPub", "AclSub", "AclDeny", "AclBoth", "AclTurned", "AclNone")
GROUPS = ("acl_sub", "acl_pub", "acl_deny", "acl_both", "acl_none")
ACCOUNTS = {"user": USER, "admin": ADMIN, "open": OPEN, "white": WHITE, "mute": MUTE}


def by(account: tuple[str, str], name: str, case: Case) -> Case:
    """The case, signed."""
    return replace(case, name=name, account=account)


def v1(case: Case) -> Case:
    """The same send, with long names."""
    return replace(case, code=10, fields={V1[k]: v for k, v in (case.fields or {}).items()})


def pull(topic: str, group_name: str) -> Case:
    return Case("pull", 11, {**PULL, "topic": topic, "queueId": "1", "consumerGroup": group_name})


def back(group_name: str) -> Case:
    fields = {"offset": "1000000000", "group": group_name, "delayLevel": "0", "originTopic": "x"}
    return Case("back", 36, {**fields, "unitMode": "false", "originMsgId": "id"})


def offset_of(group_name: str, topic: str, code: int) -> Case:
    fields = {"consumerGroup": group_name, "topic": topic, "queueId": "0"}
    return Case("offset", code, {**fields, **({"commitOffset": "0"} if code == 15 else {})})


def of_topics() -> dict[str, Case]:
    """Requests that need a permission of a topic, by name."""
    found = {}
    for topic in TOPICS:
        plain = send("send", b=topic, e="0")
        found[f"send {topic}"] = plain
        found[f"send {topic}, V1"] = v1(plain)
        # In queue 2, because Java stores batches that we refuse.
        found[f"batch {topic}"] = send("batch", TWO, 320, b=topic, m="true", e="2")
        found[f"pull {topic}"] = pull(topic, "acl_sub")
        found[f"query {topic}"] = Case(
            "query", 12,
            {"topic": topic, "key": "none", "maxNum": "1", "beginTimestamp": "0",
             "endTimestamp": "9223372036854775807"},
        )  # fmt: skip
        found[f"heartbeat {topic}"] = heartbeat("beat", "acl_sub", topic=topic)
        found[f"commit {topic}"] = offset_of("acl_sub", topic, 15)
    return found


def of_groups() -> dict[str, Case]:
    """What needs a permission of a group."""
    found = {}
    for name in GROUPS:
        found[f"back {name}"] = back(name)
        found[f"pull {name}"] = pull("AclSub", name)
        found[f"heartbeat {name}"] = heartbeat("beat", name, topic="AclSub")
        found[f"leave {name}"] = Case("leave", 35, {"clientID": "x", "consumerGroup": name})
        found[f"list {name}"] = Case("list", 38, {"consumerGroup": name})
        found[f"commit {name}"] = offset_of(name, "AclSub", 15)
        found[f"offset {name}"] = offset_of(name, "AclNone", 14)
        found[f"retry {name}"] = send("retry", b=f"%RETRY%{name}", e="0")
        found[f"retry {name}, V1"] = v1(send("retry", b=f"%RETRY%{name}", e="0"))
    return found


def of_nothing() -> dict[str, Case]:
    """What any good signature may do."""
    locked = body_of({"clientId": "c", "consumerGroup": "acl_none", "mqSet": []})
    queue = {"topic": "AclNone", "queueId": "0"}
    return {
        "lock": Case("lock", 41, None, locked),
        "unlock": Case("unlock", 42, None, locked),
        "max": Case("max", 30, queue),
        "min": Case("min", 31, queue),
        "earliest": Case("earliest", 32, queue),
        "search": Case("search", 29, {**queue, "timestamp": "0"}),
        "view": Case("view", 33, {"offset": "1000000000"}),
        "end": Case("end", 37, {
            "producerGroup": "p", "tranStateTableOffset": "0", "commitLogOffset": "1000000000",
            "commitOrRollback": "8", "msgId": "x",
        }),
        "reply": send("reply", code=325, b="DefaultCluster_REPLY_TOPIC", i="MSG_TYPE\x01reply"),
        "trace": send("trace", b="RMQ_SYS_TRACE_TOPIC", e="0"),
        "producer heartbeat": Case("beat", 34, None, body_of(
            {"clientID": "a", "consumerDataSet": [], "producerDataSet": [{"groupName": "p"}]}
        )),
        "empty heartbeat": Case("beat", 34, None, body_of({"clientID": "a"})),
        "no heartbeat": Case("beat", 34),
        "unknown code": Case("unknown", 999, {}),
    }  # fmt: skip


ADMINS: Mapping[str, Case] = {
    "create": create("AclMade"),
    "config": Case("config", 25, {}, b"traceOn=true\n"),
    "group": group("acl_made"),
    "delete group": Case("delete", 207, {"groupName": "acl_never"}),
    "delete": Case("delete", 215, {"topic": "AclNever"}),
}


def signatures() -> Iterator[Case]:
    """Good requests with something wrong about their signature."""
    good = send("send", b="AclBoth", e="0")
    name, secret = USER
    yield replace(good, name="unsigned")
    yield replace(good, name="unsigned, binary", serialize=1)
    yield by((name, "wrong-secret"), "wrong secret", good)
    yield by(("nobody-known", secret), "unknown key", good)
    yield by(("", secret), "empty key", good)
    yield by((name.upper(), secret), "key in capitals", good)
    yield good.but("no key", Signature="abc")
    yield good.but("no signature", AccessKey=name)
    yield good.but("empty signature", AccessKey=name, Signature="")
    yield good.but("signature no base64", AccessKey=name, Signature="%%%")
    yield good.but("signature of another", AccessKey=name, Signature="AAAAAAAAAAAAAAAAAAAAAAAAAAA=")
    yield by(USER, "signed", good)
    yield by(USER, "signed, binary", replace(good, serialize=1))
    yield by(USER, "signed, no ASCII", good.but("x", i="KEYS\x01é标"))
    yield by(USER, "signed, a field more", good.but("x", Z="z", A="a", SecurityToken="t"))
    yield by(USER, "signed, no body", replace(good, body=b""))
    yield by(USER, "signed, no fields", Case("x", 38))
    yield by(USER, "unique key, signed", Case("x", 12, {
        "topic": "AclSub", "key": "none", "maxNum": "1", "beginTimestamp": "0",
        "endTimestamp": "1", "_UNIQUE_KEY_QUERY": "true",
    }))  # fmt: skip
    yield replace(Case("unsigned heartbeat", 34, None, body_of({"clientID": "a"})))
    yield replace(Case("unsigned unknown", 999, {}))
    yield by(USER, "big body", replace(good, body=b"x" * 50_000))
    yield by(USER, "one of a batch", send("x", item(b"1"), 320, b="AclBoth", m="true", e="0"))


def accounts() -> Iterator[Case]:
    """50 to 54; last, since they change the accounts."""
    new = {"accessKey": "newaccount", "secretKey": "new-secret", "admin": "false",
           "defaultTopicPerm": "PUB", "defaultGroupPerm": "SUB", "topicPerms": "AclSub=SUB",
           "groupPerms": "acl_none=DENY"}  # fmt: skip
    make = Case("make", 50, new)
    yield by(ADMIN, "make an account", make)
    yield by(("newaccount", "new-secret"), "the new one", send("x", b="AclPub", e="0"))
    yield by(ADMIN, "change it", make.but("x", secretKey="other-secret", topicPerms=None))
    yield by(("newaccount", "new-secret"), "its old secret", send("x", b="AclPub", e="0"))
    yield by(("newaccount", "other-secret"), "its new secret", send("x", b="AclPub", e="0"))
    for what, changes in {
        "no key": {"accessKey": None}, "short key": {"accessKey": "six666"},
        "short secret": {"secretKey": "six666"}, "no secret, unknown": {
            "accessKey": "another-new", "secretKey": None},
        "odd permission": {"topicPerms": "AclSub=NOPE"}, "no permission": {"topicPerms": "AclSub"},
        "odd default": {"defaultTopicPerm": "NOPE"}, "odd address": {
            "whiteRemoteAddress": "1.2.3.x"},
    }.items():  # fmt: skip
        yield by(ADMIN, f"make; {what}", make.but("x", **changes))
    yield by(ADMIN, "delete it", Case("x", 51, {"accessKey": "newaccount"}))
    yield by(ADMIN, "delete it twice", Case("x", 51, {"accessKey": "newaccount"}))
    yield by(ADMIN, "delete; no key", Case("x", 51, {}))
    yield by(ADMIN, "white list; odd", Case("x", 53, {"globalWhiteAddrs": "300.1.1.1"}))
    yield by(ADMIN, "white list; none", Case("x", 53, {}))
    yield by(ADMIN, "white list", Case("x", 53, {"globalWhiteAddrs": "10.1.1.1,10.2.2.*"}))
    yield by(ADMIN, "versions", Case("x", 52))
    yield by(ADMIN, "configuration", Case("x", 54))


CASES = [
    *(by(ADMIN, f"create {topic}", create(topic)) for topic in TOPICS),
    *(by(ADMIN, f"group {name}", group(name)) for name in GROUPS),
    *signatures(),
    *(
        by(account, f"{who}: {name}", case)
        for who, account in ACCOUNTS.items()
        for name, case in {**of_topics(), **of_groups(), **of_nothing()}.items()
    ),
    *(
        by(account, f"{who}: {name}", case)
        for who, account in ACCOUNTS.items()
        for name, case in ADMINS.items()
    ),
    *accounts(),
]

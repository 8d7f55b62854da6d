"""NameServer: registration, routes, lists, permissions (103 to 106, 205 to 327)."""

from __future__ import annotations

import json
from dataclasses import replace
from zlib import crc32

from tests.interop.differential.case import BAD_BODIES, Case, body_of, spoiled, with_bad_bodies

TABLE = {
    "dataVersion": {"counter": 1, "timestamp": 1_700_000_000_000},
    "topicConfigTable": {
        name: {
            "order": False,
            "perm": perm,
            "readQueueNums": 4,
            "topicFilterType": "SINGLE_TAG",
            "topicName": name,
            "topicSysFlag": flag,
            "writeQueueNums": 4,
        }
        for name, perm, flag in (("ZTopic", 6, 0), ("ZUnit", 6, 1), ("ZSub", 4, 2), ("ZBoth", 2, 3))
    },
}
BODY = json.dumps({"filterServerList": [], "topicConfigSerializeWrapper": TABLE}).encode()
WHO = {"brokerName": "broker-z", "brokerAddr": "127.0.0.1:30001", "clusterName": "ZCluster"}
WHO |= {"brokerId": "0"}
HEAD = {**WHO, "haServerAddr": "127.0.0.1:30002", "compressed": "false", "bodyCrc32": "0"}
VERSION = body_of({"counter": 1, "timestamp": 1_700_000_000_000})
OTHER = body_of({"counter": 2, "timestamp": 1_700_000_000_000})


def ask(name: str, code: int, body: bytes = b"", **fields: str) -> Case:
    return Case(name, code, fields or None, body, server="namesrv", connection="admin")


def register(name: str, body: bytes = BODY, **fields: str) -> Case:
    return Case(name, 103, {**HEAD, **fields}, body, server="namesrv", connection="broker")


def version(name: str, body: bytes = VERSION, **fields: str) -> Case:
    return Case(name, 322, {**WHO, **fields}, body, server="namesrv", connection="broker")


def unregister(name: str, **fields: str) -> Case:
    return Case(name, 104, {**WHO, **fields}, server="namesrv", connection="broker")


ORDER = {"namespace": "ORDER_TOPIC_CONFIG", "key": "ZTopic"}
SLAVE = {"brokerId": "1", "brokerAddr": "127.0.0.1:30003", "haServerAddr": "127.0.0.1:30004"}
ROUTE = ask("route", 105, topic="ZTopic")
BAD = {"brokerName": "broker-q", "brokerAddr": "127.0.0.1:30011", "clusterName": "QCluster"}
# Fields whose absence Java takes for a broker named null are left out: see the tolerated table.
LISTS = {"all topics": 206, "system topics": 304, "unit topics": 311}
LISTS |= {"topics with unit subscribers": 312, "those that are no unit topics": 313}

CASES = [
    ask("unknown topic", 105, topic="NoSuchTopic"),
    *spoiled(ask("unknown route", 105, topic="NoSuchTopic"), words=("topic",)),
    version("version of unknown broker"),
    register("wrong crc", bodyCrc32="12345"),
    register("right crc", bodyCrc32=str(crc32(BODY) & 0x7FFFFFFF)),
    version("same version"),
    version("other version", OTHER),
    *with_bad_bodies(version("bad version"), BAD_BODIES),
    register("slave", **SLAVE),
    version("version of slave", **{k: v for k, v in SLAVE.items() if k != "haServerAddr"}),
    ROUTE,
    replace(ROUTE, name="route; again"),
    replace(ROUTE, name="route; version 400", version=400),
    replace(ROUTE, name="route; version 401", version=401),
    replace(ROUTE, name="route; version 0", version=0),
    replace(ROUTE, name="route; version 5", version=479),
    replace(ROUTE, name="route; binary header", serialize=1),
    replace(ROUTE.but("route; old, strict", acceptStandardJsonOnly="true"), version=300),
    replace(ROUTE.but("route; old, word", acceptStandardJsonOnly="yes"), version=300),
    replace(ROUTE, name="route; language GO", language=9, version=317),
    ask("clusters", 106),
    ask("clusters; fields", 106, noSuchField="1"),
    *(ask(name, code) for name, code in LISTS.items()),
    *(ask(f"{name}; fields", code, noSuchField="1") for name, code in LISTS.items()),
    replace(ask("all topics; binary header", 206), serialize=1),
    ask("topics of cluster", 224, cluster="ZCluster"),
    *spoiled(ask("topics of no cluster", 224, cluster="Nope"), words=("cluster",)),
    ask("wipe unknown", 205, brokerName="nobody"),
    *spoiled(ask("wipe nobody", 205, brokerName="nobody"), words=("brokerName",)),
    ask("wipe", 205, brokerName="broker-z"),
    replace(ROUTE, name="route; wiped"),
    ask("add nobody", 327, brokerName="nobody"),
    *spoiled(ask("add to nobody", 327, brokerName="nobody"), words=("brokerName",)),
    ask("add", 327, brokerName="broker-z"),
    replace(ROUTE, name="route; added"),
    ask("route of ZSub; added", 105, topic="ZSub"),
    ask("order is told", 318, b"orderMessageEnable=true\n"),
    ask("order", 100, **ORDER, value="broker-z:4"),
    replace(ROUTE, name="route; in order"),
    replace(ROUTE, name="route; in order, version 400", version=400),
    ask("route of ZSub; no order", 105, topic="ZSub"),
    ask("order is not told", 318, b"orderMessageEnable=false\n"),
    replace(ROUTE, name="route; order not told"),
    register("order is told to brokers"),
    ask("no order", 102, **ORDER),
    *spoiled(ask("delete unknown topic", 216, topic="NoSuchTopic"), words=("topic",)),
    ask("delete unknown topic; cluster", 216, topic="ZTopic", clusterName="Nope"),
    ask("delete topic of cluster", 216, topic="ZUnit", clusterName="ZCluster"),
    ask("route; deleted", 105, topic="ZUnit"),
    register("same version again"),
    ask("route; same version", 105, topic="ZUnit"),
    register("compressed, not so", b"not zlib", compressed="true", **BAD),
    register("no body", b"", **BAD),
    *with_bad_bodies(register("bad body", **BAD)),
    *(
        register(name, **{**BAD, key: value})
        for name, key, value in (
            ("id a word", "brokerId", "abc"),
            ("id empty", "brokerId", ""),
            ("id huge", "brokerId", "9" * 20),
            ("crc a word", "bodyCrc32", "abc"),
            ("compressed a word", "compressed", "maybe"),
        )
    ),
    ask("clusters after bad", 106),
    Case("unregister bad", 104, {**WHO, **BAD}, server="namesrv", connection="broker"),
    unregister("unregister stranger", brokerName="nobody", brokerAddr="127.0.0.1:30099"),
    unregister("unregister; id a word", brokerName="nobody", brokerId="abc"),
    unregister("unregister master"),
    replace(ROUTE, name="route; slave only"),
    Case(
        "unregister slave",
        104,
        {**WHO, "brokerId": "1", "brokerAddr": "127.0.0.1:30003"},
        server="namesrv",
        connection="broker",
    ),
    replace(ROUTE, name="route; gone"),
    ask("clusters at the end", 106),
    replace(ask("unknown code", 999), silent=True),
    replace(ask("a broker's code", 310), silent=True),
    ask("still there", 206),
]

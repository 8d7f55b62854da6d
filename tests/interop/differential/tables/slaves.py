"""Requests of slaves to a broker without slaves: its whole state through the VIP port, and the
NameServer for their master (21, 43, 45, 103, 104, 201, 322); pulls that may be sent to a slave.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tests.interop.differential.case import Case, body_of
from tests.interop.differential.tables.names_routes import BODY, VERSION
from tests.interop.differential.tables.pull import PULL, group
from tests.interop.differential.tables.send import create, send
from tests.interop.differential.tables.switches import switched

TOPIC = "SlaveTopic"
MASTER = {"brokerName": "broker-a", "clusterName": "DefaultCluster"}
SLAVE = {**MASTER, "brokerId": "1", "brokerAddr": "127.0.0.1:30101"}
HA = {"haServerAddr": "127.0.0.1:30102", "compressed": "false", "bodyCrc32": "0"}
ALONE = {"brokerName": "broker-alone"}
STATE = {"topics": 21, "offsets": 43, "delay offsets": 45, "groups": 201}
SECOND = {"brokerId": "2", "brokerAddr": "127.0.0.1:30103", "haServerAddr": "127.0.0.1:30104"}


def names(name: str, code: int, body: bytes, fields: dict[str, str]) -> Case:
    return Case(name, code, fields, body, server="namesrv", connection="slave")


def pull(name: str, **fields: str) -> Case:
    given = {**PULL, "topic": TOPIC, "consumerGroup": "slave_group", **fields}
    return Case(name, 11, given)


def states() -> Iterator[Case]:
    """The codes of the synchronisation, as a slave of each header style sends them."""
    for what, code in STATE.items():
        yield Case(f"a slave's {what}", code, {}, server="vip", connection="slave")
        yield Case(f"a slave's {what}, in binary", code, {}, server="vip", serialize=1)
        yield Case(f"a slave's {what}, with a body", code, {}, b'{"x":1}', server="vip")
        yield Case(f"a slave's {what}, of an old one", code, None, version=0)


#: Read before the rest of the log: the broker suggests no slave for messages in memory.
PULLS = (
    pull("near"),
    pull("near, at the end", queueOffset="3"),
    pull("near, beyond", queueOffset="9"),
    pull("near, before", queueOffset="-1"),
    pull("near, empty queue", queueId="3"),
    pull("near, by tag", subscription="Nothing"),
    pull("near, of another's choice", consumerGroup="slave_second"),
    pull("near, of another's choice, nothing", consumerGroup="slave_second", queueOffset="3"),
)

CASES = [
    create(TOPIC),
    *(send(f"fill {number}", b=TOPIC) for number in range(3)),
    Case("all there", 30, {"topic": TOPIC, "queueId": "0"}, until={"offset": "3"}),
    group("slave_group"),
    group("slave_second", brokerId=2, whichBrokerWhenConsumeSlowly=3),
    Case("commit", 15, {"consumerGroup": "slave_group", "topic": TOPIC, "queueId": "0",
                        "commitOffset": "2"}),
    *states(),
    *PULLS,
    *switched("slaveReadEnable", "true", "false", *PULLS),
    names("slave registers", 103, BODY, {**SLAVE, **HA}),
    names("slave's version", 322, VERSION, SLAVE),
    names("second slave", 103, BODY, {**SLAVE, **HA, **SECOND}),
    names("route of master and slaves", 105, b"", {"topic": TOPIC}),
    names("no route of what only slaves have", 105, b"", {"topic": "ZTopic"}),
    names("cluster with slaves", 106, b"", {}),
    names("slave without its own address", 103, BODY, {**SLAVE, **HA, "haServerAddr": ""}),
    names("slave moves to another id", 103, BODY, {**SLAVE, **HA, "brokerId": "3"}),
    names("cluster after the move", 106, b"", {}),
    names("second slave leaves", 104, b"", {**SLAVE, **SECOND}),
    names("slave leaves", 104, b"", {**SLAVE, "brokerId": "3"}),
    names("cluster without slaves", 106, b"", {}),
    names("slave of nobody", 103, BODY, {**SLAVE, **HA, **ALONE}),
    names("it leaves", 104, b"", {**SLAVE, **ALONE}),
    replace(names("its route", 105, b"", {"topic": "ZTopic"}), connection="admin"),
    Case("runtime info", 28, {}),
    Case("registrations are not the broker's", 103, {**SLAVE, **HA}, BODY),
    Case("nor their ends", 104, SLAVE),
    Case("nor versions", 322, SLAVE, body_of({"counter": 1, "timestamp": 1})),
]  # fmt: skip

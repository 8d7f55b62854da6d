"""mqadmin getBrokerConfig: every key of a broker's configuration, or of a cluster's brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_order import properties_order
from mqadmin.java_text import hash_order
from mqadmin.report import Report, Row
from mqadmin.targets import where
from mqclient.admin import Admin
from mqcommon.wire.bodies.route import MASTER_ID


class Found(NamedTuple):
    """One broker's configuration. role: of a cluster's broker; None for a broker of -b."""

    address: str
    role: str | None
    heading: str
    config: Mapping[str, str]


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask one broker, or every master of a cluster and its slaves."""
    chosen = where(arguments)
    brokers: list[tuple[str, str | None, str]]
    if chosen["broker"]:
        brokers = [(chosen["broker"], None, chosen["broker"])]
    else:
        brokers = await _of_cluster(admin, str(chosen["cluster"]))
    found = [
        Found(address, role, heading, await admin.brokers.config(address))
        for address, role, heading in brokers
    ]
    rows: list[Row] = [
        {"brokerAddr": one.address, "role": one.role, "key": key, "value": value}
        for one in found
        for key, value in sorted(one.config.items())
    ]
    text = "".join(map(_block, found))
    return Report(rows, lambda: text, columns=("brokerAddr", "role", "key", "value"))


async def _of_cluster(admin: Admin, cluster: str) -> list[tuple[str, str | None, str]]:
    """Address, role and heading of every broker, each master before its slaves."""
    names = await admin.brokers.names(cluster)
    table = (await admin.brokers.clusters()).broker_addr_table
    groups = {data.master: data for name in names if (data := table.get(name)) and data.master}
    brokers: list[tuple[str, str | None, str]] = []
    for master in hash_order(groups, capacity=4):
        brokers.append((master, "master", f"Master: {master}"))
        brokers += (
            (address, "slave", f"My Master: {master}=====Slave: {address}")
            for broker_id, address in sorted(groups[master].broker_addrs.items())
            if broker_id != MASTER_ID
        )
    return brokers


def _block(found: Found) -> str:
    lines = (f"{key:<50}=  {found.config[key]}\n" for key in properties_order(found.config))
    return f"============{found.heading}============\n{''.join(lines)}\n"


GET_BROKER_CONFIG = Command(
    "getBrokerConfig",
    run,
    [
        Option("b", "brokerAddr", "get which broker"),
        Option("c", "clusterName", "get which cluster"),
    ],
)

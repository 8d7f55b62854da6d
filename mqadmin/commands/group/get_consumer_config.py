"""mqadmin getConsumerConfig: the configuration of a consumer group on every broker."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.commands.group.update_sub_group import group_fields
from mqadmin.java_text import hash_order, java_value
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask every broker of every cluster."""
    found = await admin.groups.on_all_brokers(arguments.required("groupName"))
    rows = [
        {"clusterName": one.cluster, "brokerName": one.broker_name, **one.config.to_plain()}
        for one in found
    ]
    by_name = {one.broker_name: one for one in found}
    lines = []
    for name in hash_order(by_name):
        rule = "=" * 29
        lines.append(f"{rule}{by_name[name].cluster}:{name}{rule}\n")
        fields = group_fields(by_name[name].config)
        lines += (f"{field:<40}=  {java_value(value)}\n" for field, value in fields.items())
    return Report(rows, lambda: "".join(lines), columns=list(rows[0]))


GET_CONSUMER_CONFIG = Command(
    "getConsumerConfig",
    run,
    [Option("g", "groupName", "subscription group name", required=True)],
)

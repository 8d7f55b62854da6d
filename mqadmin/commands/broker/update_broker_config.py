"""mqadmin updateBrokerConfig: change a key of running brokers."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import hash_order
from mqadmin.report import Report
from mqadmin.targets import on_each, where
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Change the key on one broker, or on every master of a cluster."""
    key, value = arguments.required("key"), arguments.required("value")
    addresses = hash_order(await admin.brokers.chosen(**where(arguments)))
    await on_each(addresses, lambda address: admin.brokers.update_config(address, {key: value}))
    rows = [{"brokerAddr": address, "key": key, "value": value} for address in addresses]
    lines = [f"update broker config success, {address}\n" for address in addresses]
    return Report(rows, lambda: "".join(lines), columns=("brokerAddr", "key", "value"))


UPDATE_BROKER_CONFIG = Command(
    "updateBrokerConfig",
    run,
    [
        Option("b", "brokerAddr", "update which broker"),
        Option("c", "clusterName", "update which cluster"),
        Option("k", "key", "config key", required=True),
        Option("v", "value", "config value", required=True),
    ],
)

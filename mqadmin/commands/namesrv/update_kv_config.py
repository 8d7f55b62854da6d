"""mqadmin updateKvConfig: set a value of the NameServers' key-value configuration."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Set the value on every NameServer."""
    namespace, key = arguments.required("namespace"), arguments.required("key")
    value = arguments.required("value")
    await admin.namesrv.put_kv(namespace, key, value)
    return Report(
        [{"namespace": namespace, "key": key, "value": value}],
        lambda: "create or update kv config to namespace success.",
        columns=("namespace", "key", "value"),
    )


UPDATE_KV_CONFIG = Command(
    "updateKvConfig",
    run,
    [
        Option("s", "namespace", "set the namespace", required=True),
        Option("k", "key", "set the key name", required=True),
        Option("v", "value", "set the key value", required=True),
    ],
)

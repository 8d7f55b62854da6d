"""mqadmin deleteKvConfig: delete a value of the NameServers' key-value configuration."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Delete the value on every NameServer."""
    namespace, key = arguments.required("namespace"), arguments.required("key")
    await admin.namesrv.delete_kv(namespace, key)
    return Report(
        [{"namespace": namespace, "key": key}],
        lambda: "delete kv config from namespace success.",
        columns=("namespace", "key"),
    )


async def effect(admin: Admin, arguments: Arguments) -> str:
    """The value that will be lost."""
    namespace, key = arguments.required("namespace"), arguments.required("key")
    value = await admin.namesrv.kv(namespace, key)
    now = "which does not exist" if value is None else f"whose value is {value!r}"
    return f"delete, at every NameServer, key {key!r} of namespace {namespace!r}, {now}"


DELETE_KV_CONFIG = Command(
    "deleteKvConfig",
    run,
    [
        Option("s", "namespace", "set the namespace", required=True),
        Option("k", "key", "set the key name", required=True),
    ],
    effect=effect,
)

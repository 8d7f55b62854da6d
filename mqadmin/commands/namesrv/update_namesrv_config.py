"""mqadmin updateNamesrvConfig: change a key of running NameServers."""

from __future__ import annotations

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Change the key on every NameServer."""
    key, value = arguments.required("key"), arguments.required("value")
    await admin.namesrv.update_config({key: value})
    servers = arguments.text("namesrvAddr")
    told = f"[{', '.join(servers.split(';'))}]" if servers else ""
    return Report(
        [{"key": key, "value": value}],
        lambda: f"update name server config success!{told}\n{key} : {value}\n",
        columns=("key", "value"),
    )


UPDATE_NAMESRV_CONFIG = Command(
    "updateNamesrvConfig",
    run,
    [
        Option("k", "key", "config key", required=True),
        Option("v", "value", "config value", required=True),
    ],
)

"""mqadmin getNamesrvConfig: every key of the NameServers' configuration."""

from __future__ import annotations

from mqadmin.command import Arguments, Command
from mqadmin.java_order import properties_order
from mqadmin.java_text import hash_order
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(admin: Admin, _arguments: Arguments) -> Report:
    """Ask each NameServer."""
    configs = await admin.namesrv.config()
    rows = [
        {"namesrvAddr": address, "key": key, "value": value}
        for address in configs
        for key, value in sorted(configs[address].items())
    ]
    return Report(rows, lambda: _text(configs), columns=("namesrvAddr", "key", "value"))


def _text(configs: dict[str, dict[str, str]]) -> str:
    lines = []
    for address in hash_order(configs, capacity=4):
        lines.append(f"============{address}============\n")
        config = configs[address]
        lines += (f"{key:<50}=  {config[key]}\n" for key in properties_order(config))
    return "".join(lines)


GET_NAMESRV_CONFIG = Command("getNamesrvConfig", run)

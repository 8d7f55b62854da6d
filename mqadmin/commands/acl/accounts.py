"""mqadmin updateAclConfig, deleteAclConfig, updateGlobalWhiteAddr, clusterAclConfigVersion,
getAclConfig: accounts of brokers with access control. Secrets are never printed."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from mqadmin.command import Arguments, Command, Option
from mqadmin.report import Report, Row
from mqclient.admin import Admin
from mqcommon.wire.bodies.acl import AclConfig, PlainAccessConfig

HEADINGS = (
    ("#Cluster Name", 16), ("#Broker Name", 22), ("#Broker Addr", 22), ("#AclFilePath", 20),
    ("#AclConfigVersionNum", 22),
)  # fmt: skip
LAST_HEADING = "#AclLastUpdateTime"
MASK = "******"
ACCOUNT_FIELDS = (
    "accessKey", "secretKey", "whiteRemoteAddress", "admin", "defaultTopicPerm",
    "defaultGroupPerm", "topicPerms", "groupPerms",
)  # fmt: skip


async def update(admin: Admin, arguments: Arguments) -> Report:
    """Create or change an account."""
    account = PlainAccessConfig(
        arguments.required("accessKey"),
        arguments.required("secretKey"),
        arguments.text("whiteRemoteAddress"),
        arguments.is_true("admin"),
        arguments.text("defaultTopicPerm"),
        arguments.text("defaultGroupPerm"),
        _listed(arguments.text("topicPerms")),
        _listed(arguments.text("groupPerms")),
    )
    addresses = await _addresses(admin, arguments)
    for address in addresses:
        await admin.access.put_account(address, account)
    lines = [f"create or update plain access config to {address} success." for address in addresses]
    return Report(
        [{"brokerAddr": address, "accessKey": account.access_key} for address in addresses],
        lambda: "\n".join([*lines, f"account's accesskey is:{account.access_key}"]),
    )


async def delete(admin: Admin, arguments: Arguments) -> Report:
    """Delete an account."""
    key, addresses = arguments.required("accessKey"), await _addresses(admin, arguments)
    for address in addresses:
        await admin.access.delete_account(address, key)
    lines = [f"delete plain access config account from {address} success." for address in addresses]
    return Report(
        [{"brokerAddr": address, "accessKey": key} for address in addresses],
        lambda: "\n".join([*lines, f"account's accesskey is:{key}"]),
    )


async def white(admin: Admin, arguments: Arguments) -> Report:
    """Replace the global white list."""
    wanted = arguments.required("globalWhiteRemoteAddresses")
    addresses = await _addresses(admin, arguments)
    for address in addresses:
        await admin.access.set_white(address, wanted, arguments.text("aclFileFullPath"))
    lines = [f"update global white remote addresses to {address} success." for address in addresses]
    rows = [{"brokerAddr": address, "globalWhiteAddrs": wanted} for address in addresses]
    return Report(rows, lambda: "\n".join(lines))


async def versions(admin: Admin, arguments: Arguments) -> Report:
    """Versions of the access files."""
    cluster = arguments.text("clusterName")
    rows: list[Row] = []
    for address in await _addresses(admin, arguments, masters_only=False):
        found = await admin.access.versions(address)
        for path, version in sorted(json.loads(found.all_acl_file_version or "{}").items()):
            when = datetime.fromtimestamp(version["timestamp"] / 1000, UTC)
            rows.append({
                "clusterName": found.cluster_name,
                "brokerName": found.broker_name,
                "brokerAddr": found.broker_addr,
                "aclFilePath": path,
                "counter": version["counter"],
                "updated": when.strftime("%Y-%m-%d %H:%M:%S"),
            })  # fmt: skip
    return Report(rows, lambda: _versions_table(rows, cluster is not None))


def _versions_table(rows: list[Row], of_cluster: bool) -> str:
    """RocketMQ's table: headings for a cluster only."""
    widths = [width for _, width in HEADINGS]
    lines = []
    if of_cluster:
        heads = [f"{name:<{width}}" for name, width in HEADINGS]
        lines.append("  ".join([*heads, f"{LAST_HEADING:<22}"]))
    for row in rows:
        cells = [f"{value!s:<{width}}" for value, width in zip(row.values(), widths, strict=False)]
        lines.append("  ".join([*cells, f"{row['updated']:<22}"]).rstrip())
    whose = "cluster" if of_cluster else "broker"
    return "\n".join([*lines, f"get {whose}'s plain access config version success."])


async def show(admin: Admin, arguments: Arguments) -> Report:
    """All accounts, without their secrets, whatever the broker sent."""
    rows: list[Row] = []
    configs: list[AclConfig] = []
    for address in await _addresses(admin, arguments, masters_only=False):
        config = await admin.access.config(address)
        configs.append(config)
        for account in config.plain_access_configs:
            account.secret_key = MASK
            values = account.to_plain()
            fields = {name: values.get(name) for name in ACCOUNT_FIELDS}
            rows.append({"brokerAddr": address, **fields})
    return Report(rows, lambda: "\n".join(map(_config_text, configs)))


def _config_text(config: AclConfig) -> str:
    """RocketMQ's text of one broker's accounts."""
    lines = ["", f"globalWhiteRemoteAddresses: [{', '.join(config.global_white_addrs)}]", ""]
    lines.append("accounts:")
    for account in config.plain_access_configs:
        values = account.to_plain()
        for name in ACCOUNT_FIELDS:
            lines.append(f"  {name:<18}: {_shown(values.get(name))}")
        lines.append("")
    return "\n".join(lines) + "\n"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list):
        return f"[{', '.join(value)}]"
    return "" if value is None else str(value)


def _listed(text: str | None) -> list[str] | None:
    return None if text is None else [part for part in text.split(",") if part]


async def _addresses(admin: Admin, arguments: Arguments, *, masters_only: bool = True) -> list[str]:
    """The brokers that -b or -c names; questions go to slaves too."""
    broker = arguments.text("brokerAddr")
    if broker:
        return [broker]
    cluster = arguments.required("clusterName")
    if masters_only:
        return await admin.brokers.masters(cluster)
    known = await admin.brokers.clusters()
    names = await admin.brokers.names(cluster)
    datas = [known.broker_addr_table[name] for name in names if name in known.broker_addr_table]
    return [data.broker_addrs[key] for data in datas for key in sorted(data.broker_addrs)]


def _where(broker: str, cluster: str) -> list[Option]:
    return [Option("b", "brokerAddr", broker), Option("c", "clusterName", cluster)]


_KEPT = "acl config file"
UPDATE_ACL_CONFIG = Command(
    "updateAclConfig",
    update,
    [
        *_where(f"update {_KEPT} to which broker", f"update {_KEPT} to which cluster"),
        Option("a", "accessKey", f"set accessKey in {_KEPT}", required=True),
        Option("s", "secretKey", f"set secretKey in {_KEPT}", required=True),
        Option("w", "whiteRemoteAddress", f"set white ip Address for account in {_KEPT}"),
        Option("i", "defaultTopicPerm", f"set default topicPerm in {_KEPT}"),
        Option("u", "defaultGroupPerm", f"set default GroupPerm in {_KEPT}"),
        Option("t", "topicPerms", "set topicPerms list,eg: topicA=DENY,topicD=SUB"),
        Option("g", "groupPerms", "set groupPerms list,eg: groupD=DENY,groupD=SUB"),
        Option("m", "admin", f"set admin flag in {_KEPT}"),
    ],
    either=("b", "c"),
)
DELETE_ACL_CONFIG = Command(
    "deleteAclConfig",
    delete,
    [
        *_where(
            "delete acl config account from which broker",
            "delete acl config account from which cluster",
        ),
        Option("a", "accessKey", f"set accessKey in {_KEPT} for deleting which account",
               required=True),
    ],
    either=("b", "c"),
)  # fmt: skip
_QUERY = _where(
    "query acl config version for which broker", "query acl config version for specified cluster"
)
CLUSTER_ACL_CONFIG_VERSION = Command(
    "clusterAclConfigVersion",
    versions,
    _QUERY,
    either=("b", "c"),
)
UPDATE_GLOBAL_WHITE_ADDR = Command(
    "updateGlobalWhiteAddr",
    white,
    [
        *_where(
            "update global white address to which broker",
            "update global white address to which cluster",
        ),
        Option("g", "globalWhiteRemoteAddresses",
               "set globalWhiteRemoteAddress list,eg: 10.10.103.*,192.168.0.*", required=True),
        Option("p", "aclFileFullPath",
               "update global white address of specified acl file,eg: /xxx/plain_test.yml"),
    ],
    either=("b", "c"),
)  # fmt: skip
GET_ACL_CONFIG = Command(
    "getAclConfig",
    show,
    _QUERY,
    either=("b", "c"),
)

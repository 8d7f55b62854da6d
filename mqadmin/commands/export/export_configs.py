"""mqadmin exportConfigs: the size of a cluster and its masters' main settings, in a file."""

from __future__ import annotations

from mqadmin.command import Arguments, Command
from mqadmin.exporting import CLUSTER, ConcurrentMap, exported, folder_option
from mqadmin.report import Report
from mqclient.admin import Admin

KEYS = (
    "brokerClusterName", "brokerId", "brokerName", "brokerRole", "fileReservedTime",
    "filterServerNums", "flushDiskType", "maxMessageSize", "messageDelayLevel",
    "msgTraceTopicName", "slaveReadEnable", "traceOn", "traceTopicEnable", "useTLS",
    "autoCreateTopicEnable", "autoCreateSubscriptionGroup",
)  # fmt: skip
"""The exported settings, in the order in which RocketMQ collects them."""


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask every master of the cluster."""
    cluster = arguments.required("clusterName")
    masters = await admin.brokers.masters(cluster)
    brokers = await admin.brokers.addresses(cluster)
    configs: dict[str, ConcurrentMap[str]] = {}
    for address in masters:
        config = await admin.brokers.config(address)
        chosen = ConcurrentMap((key, config[key]) for key in KEYS if key in config)
        configs[config.get("brokerName", address)] = chosen
    scale = {
        "namesrvSize": len(await admin.namesrv.addresses()),
        "masterBrokerSize": len(masters),
        "slaveBrokerSize": len(brokers) - len(masters),
    }
    return exported(arguments, "configs.json", {"brokerConfigs": configs, "clusterScale": scale})


EXPORT_CONFIGS = Command("exportConfigs", run, [CLUSTER, folder_option("configs.json")])

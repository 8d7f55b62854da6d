"""mqadmin exportMetrics: rates, daily counts and sizes of a cluster's masters, in a file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from mqadmin.command import Arguments, Command
from mqadmin.exporting import CLUSTER, exported, folder_option
from mqadmin.report import Report
from mqadmin.runtime_figures import first_number, transferred_tps
from mqadmin.unreached import Unreached
from mqclient.admin import Admin
from mqclient.admin.versions import version_name
from mqcommon.names import HALF_TOPIC, SCHEDULE_TOPIC
from mqcommon.wire.bodies.groups import BrokerStatsData
from mqcommon.wire.codes import VERSION_4_9_7

RATES = ("normalInTps", "normalOutTps", "transInTps", "scheduleInTps")
COUNTS = ("normalOneDayInNum", "normalOneDayOutNum", "transOneDayInNum", "scheduleOneDayInNum")


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask every master of the cluster; unavailable figures are zero in the file, as in RocketMQ."""
    unreached = Unreached()
    cluster = arguments.required("clusterName")
    table = (await admin.brokers.clusters()).broker_addr_table
    rates: Counter[str] = Counter(dict.fromkeys(map(_total, RATES), 0))
    counts: Counter[str] = Counter(dict.fromkeys(COUNTS, 0))
    reports = {}
    for name in await admin.brokers.names(cluster):
        address = table[name].master if name in table else None
        if address is not None:
            quota, reports[name] = await _of_broker(admin, address, unreached)
            rates.update({_total(rate): quota[rate] for rate in RATES})
            counts.update({count: quota[count] for count in COUNTS})
    totals = {
        "totalTps": {name: float(rate) for name, rate in rates.items()},
        "totalOneDayNum": dict(counts),
    }
    content = {"evaluateReport": reports, "totalData": totals}
    report = exported(arguments, "metrics.json", content)
    if unreached.failure is None:
        return report
    return replace(report, rows=[], failure=unreached.failure)


def _total(rate: str) -> str:
    """normalInTps -> totalNormalInTps."""
    return f"total{rate[0].upper()}{rate[1:]}"


async def _of_broker(
    admin: Admin, address: str, unreached: Unreached
) -> tuple[dict[str, float], dict[str, object]]:
    """The figures that are added up, and the whole report of one master."""
    runtime = await admin.brokers.runtime(address)
    config = await admin.brokers.config(address)
    groups = await admin.groups.user_configs(address)
    topics = await admin.topics.user_configs(address)
    figures = await _figures(admin, address, runtime, unreached)
    return figures, {
        "runtimeEnv": {
            "cpuNum": config.get("clientCallbackExecutorThreads"),
            "totalMemKBytes": runtime.get("totalMemKBytes"),
        },
        "runtimeQuota": {
            "diskRatio": {
                name: runtime.get(name) for name in ("commitLogDiskRatio", "consumeQueueDiskRatio")
            },
            "tps": {name: figures[name] for name in RATES},
            "oneDayNum": {name: figures[name] for name in COUNTS},
            "messageAverageSize": runtime.get("putMessageAverageSize"),
            "topicSize": len(topics),
            "groupSize": len(groups),
        },
        "runtimeVersion": {
            "rocketmqVersion": version_name(VERSION_4_9_7),
            "clientInfo": await _clients(admin, groups, unreached),
        },
    }


async def _figures(
    admin: Admin, address: str, runtime: Mapping[str, str], unreached: Unreached
) -> dict[str, float]:
    """Rates of the last minute, and counts of a day, by RocketMQ's names."""
    half = await _stats(admin, address, HALF_TOPIC, unreached)
    delayed = await _stats(admin, address, SCHEDULE_TOPIC, unreached)
    return {
        "normalInTps": first_number(runtime["putTps"]),
        "normalOutTps": first_number(transferred_tps(runtime)),
        "transInTps": half.stats_minute.tps,
        "scheduleInTps": delayed.stats_minute.tps,
        "normalOneDayInNum": _today(runtime, "msgPutTotal"),
        "normalOneDayOutNum": _today(runtime, "msgGetTotal"),
        "transOneDayInNum": half.sum_of_a_day,
        "scheduleOneDayInNum": delayed.sum_of_a_day,
    }


async def _stats(admin: Admin, address: str, topic: str, unreached: Unreached) -> BrokerStatsData:
    """A topic's counts of sends; zero if the broker has counted none."""
    with unreached.passed_over():
        return await admin.brokers.stats(address, "TOPIC_PUT_NUMS", topic)
    return BrokerStatsData()


def _today(runtime: Mapping[str, str], name: str) -> int:
    return int(runtime[f"{name}TodayMorning"]) - int(runtime[f"{name}YesterdayMorning"])


async def _clients(admin: Admin, groups: Iterable[str], unreached: Unreached) -> set[str]:
    """Languages and versions of the groups' members; groups without members have none."""
    found: set[str] = set()
    for group in groups:
        with unreached.passed_over():
            members = (await admin.groups.connection(group)).connection_set
            found |= {f"{one.language}%{version_name(one.version)}" for one in members}
    return found


EXPORT_METRICS = Command("exportMetrics", run, [CLUSTER, folder_option("metrics.json")])

"""mqadmin clusterList: every broker with its load, or with -m its daily totals."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from mqadmin.command import Arguments, Command, Option
from mqadmin.java_text import fixed, in_hash_order
from mqadmin.report import Report
from mqadmin.runtime_figures import first_number, transferred_tps
from mqadmin.unreached import Unreached
from mqclient.admin import Admin
from mqclient.engine.parallel import in_parallel

MS_PER_HOUR = 3_600_000
TOTALS = ("inTotalYesterday", "outTotalYesterday", "inTotalToday", "outTotalToday")
TOTALS_COLUMNS = ("cluster", "brokerName", "addr", *TOTALS)
LOAD_COLUMNS = (
    "cluster", "brokerName", "brokerId", "addr", "version", "inTps", "outTps", "hours",
    "commitLogDiskRatio",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Broker:
    """One address of a cluster; runtime is empty when it did not answer."""

    cluster: str
    name: str
    broker_id: int
    address: str
    runtime: Mapping[str, str]


async def run(admin: Admin, arguments: Arguments) -> Report:
    """Ask every broker for its runtime figures."""
    unreached = Unreached()
    brokers = await _brokers(admin, unreached)
    answered = [broker for broker in brokers if broker.runtime]
    if arguments.flag("moreStats"):
        totals = [_totals_row(broker) for broker in answered]
        return Report(
            totals,
            lambda: _totals_table(brokers),
            columns=TOTALS_COLUMNS,
            failure=unreached.failure,
        )
    now_ms = int(time.time() * 1000)
    rows = [_load_row(broker, now_ms) for broker in answered]
    return Report(
        rows,
        lambda: _load_table(brokers, now_ms),
        columns=LOAD_COLUMNS,
        failure=unreached.failure,
    )


async def _brokers(admin: Admin, unreached: Unreached) -> list[Broker]:
    known = await admin.brokers.clusters()
    places = [
        (cluster, name, broker_id, address)
        for cluster, names in in_hash_order(known.cluster_addr_table)
        for name in sorted(names)
        if (data := known.broker_addr_table.get(name)) is not None
        for broker_id, address in sorted(data.broker_addrs.items())
    ]
    runtimes: dict[str, dict[str, str]] = {}

    async def ask(address: str) -> None:
        with unreached.passed_over(refusals=True):  # a row without figures
            runtimes[address] = await admin.brokers.runtime(address)

    await in_parallel(ask, dict.fromkeys(address for *_, address in places))
    return [Broker(*place, runtimes.get(place[-1], {})) for place in places]


def _hours(broker: Broker, now_ms: int) -> float:
    earliest = broker.runtime.get("earliestMessageTimeStamp")
    return (now_ms - int(earliest)) / MS_PER_HOUR if earliest else 0.0


def _has_oldest(runtime: Mapping[str, str]) -> bool:
    """Whether the broker knows the time of its oldest message; RocketMQ's text takes -1 for one."""
    return int(runtime.get("earliestMessageTimeStamp") or 0) > 0


def _load_row(broker: Broker, now_ms: int) -> dict[str, object]:
    runtime = broker.runtime
    return {
        "cluster": broker.cluster,
        "brokerName": broker.name,
        "brokerId": broker.broker_id,
        "addr": broker.address,
        "version": runtime.get("brokerVersionDesc", ""),
        "inTps": first_number(runtime.get("putTps")),
        "outTps": first_number(transferred_tps(runtime)),
        "pageCacheLockTimeMills": int(runtime.get("pageCacheLockTimeMills") or 0),
        "hours": round(_hours(broker, now_ms), 2) if _has_oldest(runtime) else None,
        "commitLogDiskRatio": float(runtime.get("commitLogDiskRatio") or 0),
    }


def _load_table(brokers: list[Broker], now_ms: int) -> str:
    def line(*cells: str) -> str:
        name, broker, broker_id, address, version, *numbers = cells
        head = f"{name:<16}  {broker:<22}  {broker_id:<4}  {address:<22} {version:<16}"
        widths = (19, 19, 10, 5, 6)
        return " ".join([head, *(f"{n:>{w}}" for n, w in zip(numbers, widths, strict=True))])

    titles = "#Cluster Name|#Broker Name|#BID|#Addr|#Version|#InTPS(LOAD)|#OutTPS(LOAD)"
    lines = [line(*titles.split("|"), "#PCWait(ms)", "#Hour", "#SPACE")]
    for broker in brokers:
        runtime = broker.runtime
        lines.append(
            line(
                broker.cluster,
                broker.name,
                str(broker.broker_id),
                broker.address,
                runtime.get("brokerVersionDesc", ""),
                _load(runtime, runtime.get("putTps"), "send"),
                _load(runtime, transferred_tps(runtime), "pull"),
                runtime.get("pageCacheLockTimeMills", ""),
                fixed(_hours(broker, now_ms), 2),
                fixed(float(runtime.get("commitLogDiskRatio") or 0), 4),
            )
        )
    return "\n".join(lines)


def _load(runtime: Mapping[str, str], tps: str | None, pool: str) -> str:
    """Rate, then the waiting requests of the pool and the age of the oldest."""
    size = runtime.get(f"{pool}ThreadPoolQueueSize", "")
    wait_ms = runtime.get(f"{pool}ThreadPoolQueueHeadWaitTimeMills", "")
    return f"{fixed(first_number(tps), 2):>9}({size},{wait_ms}ms)"


def _totals(broker: Broker) -> tuple[int, int, int, int]:
    """Messages in and out: yesterday, and today so far."""

    def count(kind: str, moment: str) -> int:
        return int(broker.runtime.get(f"msg{kind}Total{moment}") or 0)

    yesterday = [
        count(kind, "TodayMorning") - count(kind, "YesterdayMorning") for kind in ("Put", "Get")
    ]
    today = [count(kind, "TodayNow") - count(kind, "TodayMorning") for kind in ("Put", "Get")]
    return yesterday[0], yesterday[1], today[0], today[1]


def _totals_row(broker: Broker) -> dict[str, object]:
    head = {"cluster": broker.cluster, "brokerName": broker.name, "addr": broker.address}
    return {**head, **dict(zip(TOTALS, _totals(broker), strict=True))}


def _totals_table(brokers: list[Broker]) -> str:
    titles = ("#InTotalYest", "#OutTotalYest", "#InTotalToday", "#OutTotalToday")
    lines = [f"{'#Cluster Name':<16}  {'#Broker Name':<32} {' '.join(f'{t:>14}' for t in titles)}"]
    for broker in brokers:
        numbers = " ".join(f"{number:>14}" for number in _totals(broker))
        lines.append(f"{broker.cluster:<16}  {broker.name:<32} {numbers}")
    return "\n".join(lines)


CLUSTER_LIST = Command(
    "clusterList",
    run,
    [
        Option("m", "moreStats", "Print more stats", takes_value=False),
        Option("i", "interval", "specify intervals numbers, it is in seconds"),
    ],
    interval_option="interval",
)

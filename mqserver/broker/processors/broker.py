"""Codes 25, 26, 28 and 315: settings, runtime information, statistics (`AdminBrokerProcessor`)."""

from __future__ import annotations

import shutil

from mqcommon.wire.bodies.common import KVTable
from mqcommon.wire.codes import VERSION_4_9_7, ResponseCode
from mqcommon.wire.headers.admin import GetBrokerConfigResponseHeader
from mqserver.broker.context import BrokerContext
from mqserver.runtime.processor_api import Reply, Request, Response

_FIXED = {
    "brokerVersionDesc": "V4_9_7",
    "brokerVersion": str(VERSION_4_9_7),
    "remainTransientStoreBufferNumbs": "2147483647",
}


def update_config(broker: BrokerContext, request: Request) -> Reply:
    """UPDATE_BROKER_CONFIG (25): changes the allowed keys, and ignores unknown keys."""
    broker.online.update(request.body.decode(), request.remote)
    return Response()


def get_config(broker: BrokerContext, request: Request) -> Reply:
    """GET_BROKER_CONFIG (26)."""
    version = broker.online.version.to_json().decode()
    fields = GetBrokerConfigResponseHeader(version=version).to_fields()
    return Response(fields=fields, body=broker.online.text().encode())


def runtime_info(broker: BrokerContext, request: Request) -> Reply:
    """GET_BROKER_RUNTIME_INFO (28)."""
    settings, figures = broker.settings, broker.store.runtime()
    broker.days.look(figures)
    table = {
        **_FIXED,
        **broker.days.figures(),
        "bootTimestamp": str(broker.boot_ms),
        "runtime": _elapsed(broker.now_ms() - broker.boot_ms),
        **_queues(broker),
        "startAcceptSendRequestTimeStamp": str(settings.start_accept_send_request_time_stamp),
        "commitLogDirCapacity": _capacity(settings.store_path_root_dir),
        **figures,
        **(broker.replication.figures() if broker.replication else {}),
    }
    return Response(body=KVTable(table).to_json())


def view_stats(broker: BrokerContext, request: Request) -> Reply:
    """VIEW_BROKER_STATS_DATA (315)."""
    name, key = (request.fields.get(field, "null") for field in ("statsName", "statsKey"))
    found = broker.stats.view(name, key)
    if found is None:
        remark = f"The stats <{name}> <{key}> not exist"
        return Response(ResponseCode.SYSTEM_ERROR, remark)
    return Response(body=found.to_json())


def _queues(broker: BrokerContext) -> dict[str, str]:
    """The number of waiting requests in each pool that RocketMQ shows."""
    counters, settings = broker.counters(), broker.settings
    pools = {
        "send": settings.send_thread_pool_queue_capacity,
        "pull": settings.pull_thread_pool_queue_capacity,
        "query": settings.query_thread_pool_queue_capacity,
    }
    table = {
        "EndTransactionQueueSize": counters.get("waiting.endTransaction", 0),
        "EndTransactionThreadPoolQueueCapacity": settings.end_transaction_pool_queue_capacity,
    }
    for pool, capacity in pools.items():
        queue = f"{pool}ThreadPoolQueue"
        table[f"{queue}Size"] = counters.get(f"waiting.{pool}", 0)
        table[f"{queue}Capacity"] = capacity
        table[f"{queue}HeadWaitTimeMills"] = counters.get(f"head_wait_ms.{pool}", 0)
    return {key: str(value) for key, value in table.items()}


def _capacity(path: str) -> str:
    """The size of a partition in RocketMQ's form: "Total : 252.0 GiB, Free : 70.7 GiB."."""
    found = shutil.disk_usage(path)
    return f"Total : {_readable(found.total)}, Free : {_readable(found.free)}."


def _readable(size_bytes: int) -> str:
    size, unit = float(size_bytes), ""
    for larger in "KMGTPE":
        if size < 1024:
            break
        size, unit = size / 1024, f"{larger}i"
    return f"{size:.1f} {unit}B" if unit else f"{size_bytes} B"


def _elapsed(milliseconds: int) -> str:
    """A duration in RocketMQ's form."""
    seconds = max(0, milliseconds) // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    return f"[ {days} days, {hours % 24} hours, {minutes % 60} minutes, {seconds % 60} seconds ]"

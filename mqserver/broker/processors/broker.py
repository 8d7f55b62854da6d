"""The broker itself: 25, 26 and 28 (server.md B.7, B.9)."""

from __future__ import annotations

import shutil

from mqclient.wire.bodies.common import KVTable
from mqclient.wire.codes import VERSION_4_9_7
from mqclient.wire.headers.admin import GetBrokerConfigResponseHeader
from mqserver.broker.context import BrokerContext
from mqserver.replies import Reply, Request, Response

_FIXED = {
    "brokerVersionDesc": "V4_9_7",
    "brokerVersion": str(VERSION_4_9_7),
    "sendThreadPoolQueueSize": "0",
    "sendThreadPoolQueueHeadWaitTimeMills": "0",
    "pullThreadPoolQueueSize": "0",
    "pullThreadPoolQueueHeadWaitTimeMills": "0",
    "queryThreadPoolQueueSize": "0",
    "queryThreadPoolQueueHeadWaitTimeMills": "0",
    "EndTransactionQueueSize": "0",
    "EndTransactionThreadPoolQueueCapacity": "100000",
    "remainTransientStoreBufferNumbs": "2147483647",
    "earliestMessageTimeStamp": "-1",
}


def update_config(broker: BrokerContext, request: Request) -> Reply:
    """UPDATE_BROKER_CONFIG (25): an allow-list of keys; unknown ones are ignored."""
    broker.online.update(request.body.decode())
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
        "sendThreadPoolQueueCapacity": str(settings.send_thread_pool_queue_capacity),
        "pullThreadPoolQueueCapacity": str(settings.pull_thread_pool_queue_capacity),
        "queryThreadPoolQueueCapacity": str(settings.query_thread_pool_queue_capacity),
        "pageCacheLockTimeMills": str(broker.store.lock_held_ms()),
        "startAcceptSendRequestTimeStamp": str(settings.start_accept_send_request_time_stamp),
        "commitLogDirCapacity": _capacity(settings.store_path_root_dir),
        **figures,
    }
    return Response(body=KVTable(table).to_json())


def _capacity(path: str) -> str:
    """The size of a partition in RocketMQ's words: "Total : 252.0 GiB, Free : 70.7 GiB."."""
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
    """A duration in RocketMQ's words."""
    seconds = max(0, milliseconds) // 1000
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    return f"[ {days} days, {hours % 24} hours, {minutes % 60} minutes, {seconds % 60} seconds ]"

"""The facts that a broker publishes to the Rust data plane at its start and at every change."""

from __future__ import annotations

from mqserver.broker.context import BrokerContext
from mqserver.config.settings import BrokerSettings
from mqserver.runtime.descriptors import connections_max
from mqserver.runtime.memory import HANDOFF_BYTES, REPLY_BYTES, memory_limit, within_memory
from mqserver.tls.certificates import plane_tls


def plane_settings(
    settings: BrokerSettings, store_host: str, servers: int = 1
) -> dict[str, object]:
    """The settings of the listener.

    store_host: the "ip:port" that clients connect to. servers: number of listening servers in this
    process.
    """
    limit = memory_limit()
    port = settings.listen_port
    fast = port - 2 if port > 2 else 0
    return {
        "kind": "broker",
        "host": settings.bind_address,
        "port": port,
        "fast_port": fast if settings.fast_port_enable else None,
        "worker_threads": settings.worker_threads or None,
        "data_plane": settings.data_plane,
        "max_frame_bytes": settings.max_frame_bytes,
        "max_header_bytes": settings.max_header_bytes,
        "max_header_fields": settings.max_header_fields,
        "frame_timeout": float(settings.max_frame_seconds),
        "min_frame_rate": settings.min_frame_bytes_per_second,
        "max_large_bytes": within_memory(settings.max_large_request_bytes, limit),
        "max_reply_bytes": within_memory(REPLY_BYTES, limit),
        "max_handoff_bytes": within_memory(HANDOFF_BYTES, limit),
        "max_unfinished_bytes": within_memory(settings.max_unfinished_frame_bytes, limit),
        "idle_timeout": float(settings.server_channel_max_idle_time_seconds),
        "max_connections": connections_max(settings.max_connections, servers),
        "store_host": store_host,
        "tls": plane_tls(settings.server_tls),
    }


def broker_row(context: BrokerContext) -> dict[str, object]:
    """The one row of the published table "broker"."""
    settings = context.settings
    return {
        "permission": settings.broker_permission,
        "region_id": settings.region_id,
        "trace_on": settings.trace_on,
        "cluster_name": settings.broker_cluster_name,
        "broker_name": settings.broker_name,
        "long_polling": settings.long_polling_enable,
        "short_polling_ms": settings.short_polling_time_mills,
        "max_message_bytes": settings.max_message_size,
        "start_accept_ms": settings.start_accept_send_request_time_stamp,
        "property_filter": settings.enable_property_filter,
        "filter_retry": settings.filter_support_retry,
        "reject_transaction": settings.reject_transaction_message,
        "slave_read": settings.slave_read_enable,
        "is_slave": settings.is_slave,
        "corrects_offsets": settings.corrects_offsets,
        "store_host": context.store_host,
        "accepting": context.accepting,
        "consumer_offset_max": settings.consumer_offset_max,
        "queue_lock_max": settings.queue_lock_max,
        "client_queue_lock_max": settings.client_queue_lock_max,
        "source_queue_lock_max": context.bounds.share_of(settings.queue_lock_max),
    }

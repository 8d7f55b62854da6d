"""Names of the figures and their format."""

from __future__ import annotations

NAMES = {
    "messages_per_s": "messages/s",
    "connections_per_s": "connections/s",
    "routes_per_s": "routes/s",
    "sent_per_s": "sent, messages/s",
    "lost_percent": "sent and not stored, %",
    "p50_us": "p50 µs",
    "p99_us": "p99 µs",
    "p999_us": "p99.9 µs",
    "p9999_us": "p99.99 µs",
    "heartbeat_p50_us": "first heartbeat p50 µs",
    "heartbeat_p99_us": "first heartbeat p99 µs",
    "failed": "failed in a round",
    "refused": "requests refused in a round",
    "disk_p50_us": "disk's fdatasync p50 µs",
    "added_us": "p50 over the disk's, µs",
    "broker_cpu_us_per_message": "broker CPU, s per million messages",
    "broker_cpu_us_per_connection": "broker CPU, s per million connections",
    "namesrv_cpu_us_per_route": "NameServer CPU, s per million routes",
    "idle_anonymous_mb": "anonymous MB, idle",
    "idle_file_mb": "file MB, idle",
    "anonymous_mb": "anonymous MB, loaded",
    "file_mb": "file MB, loaded",
    "namesrv_anonymous_mb": "NameServer anonymous MB",
    "broker_start_ms": "broker, exec to open port, ms",
    "namesrv_start_ms": "NameServer, exec to open port, ms",
    "call_ms": "both from the call, warm interpreter, ms",
}
"""Figures and their column titles, in the order of the columns."""


def written(value: float | None) -> str:
    """A figure with at least three digits; empty for None."""
    if value is None:
        return ""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"

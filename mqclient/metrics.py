"""Counters of a client's work, for Prometheus, OpenTelemetry or an object of your own."""

from mqclient.integrations.metrics import (
    METRICS,
    ClientMetrics,
    Metric,
    OpenTelemetryMetrics,
    PrometheusMetrics,
)

__all__ = ["METRICS", "ClientMetrics", "Metric", "OpenTelemetryMetrics", "PrometheusMetrics"]

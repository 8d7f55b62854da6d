"""Adapters of `ClientMetrics`: Prometheus and OpenTelemetry. Each needs its extra."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mqclient.engine.metrics import METRICS, ClientMetrics, Metric
from mqcommon import extras
from mqcommon.version import version

__all__ = ["METRICS", "ClientMetrics", "Metric", "OpenTelemetryMetrics", "PrometheusMetrics"]


class PrometheusMetrics:
    """Metrics `rocketmq_client_...` of prometheus-client (extra `metrics`).

    registry: None is prometheus-client's own. Clients share one object, because a registry takes
    each name once. Raises ImportError that names the extra, ValueError for a second object.
    """

    def __init__(self, registry: Any = None) -> None:
        client = extras.load("prometheus_client", "PrometheusMetrics")
        kinds = {"counter": client.Counter, "sum": client.Gauge, "gauge": client.Gauge}
        registry = client.REGISTRY if registry is None else registry
        self._made = {
            name: kinds[metric.kind](
                f"rocketmq_client_{name}", metric.about, metric.labels, registry=registry
            )
            for name, metric in METRICS.items()
        }

    def add(self, name: str, amount: float, labels: Mapping[str, str]) -> None:
        """Add to a counter or a sum; see `ClientMetrics`."""
        self._made[name].labels(**labels).inc(amount)

    def set(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Set a gauge; see `ClientMetrics`."""
        self._made[name].labels(**labels).set(value)


class OpenTelemetryMetrics:
    """Instruments `rocketmq.client....` of OpenTelemetry (extra `otel`).

    meter_provider: None is the global one. Raises ImportError that names the extra.
    """

    def __init__(self, meter_provider: Any = None) -> None:
        api = extras.load("opentelemetry.metrics", "OpenTelemetryMetrics")
        meter = api.get_meter("mqclient", version(), meter_provider)
        makers = {
            "counter": meter.create_counter,
            "sum": meter.create_up_down_counter,
            "gauge": meter.create_gauge,
        }
        self._made = {
            name: makers[metric.kind](f"rocketmq.client.{name}", description=metric.about)
            for name, metric in METRICS.items()
        }

    def add(self, name: str, amount: float, labels: Mapping[str, str]) -> None:
        """Add to a counter or a sum; see `ClientMetrics`."""
        self._made[name].add(amount, dict(labels))

    def set(self, name: str, value: float, labels: Mapping[str, str]) -> None:
        """Set a gauge; see `ClientMetrics`."""
        self._made[name].set(value, dict(labels))

"""A NameServer's metrics. RocketMQ's NameServer has none, so the names are our own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from mqserver.namesrv.processors import Names
from mqserver.runtime import refusals, services
from mqserver.runtime.descriptors import CONNECTIONS_REFUSED_HELP
from mqserver.runtime.services import Failures
from mqserver.tls.certificates import CERTIFICATE_END, CERTIFICATE_END_HELP, TLS_COUNTERS

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric


class NamesMetrics:
    """The metrics of one NameServer, read at each request to `/metrics`."""

    def __init__(
        self,
        names: Names,
        counters: Callable[[], dict[str, int]],
        certificate_end: Callable[[], int | None],
        failures: Callable[[], Failures],
    ) -> None:
        self._names = names
        self._counters = counters
        self._certificate_end = certificate_end
        self._failures = failures

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its present value."""
        routes, counters = self._names.routes, self._counters()
        topics = len(routes.topics())
        yield GaugeMetricFamily("rocketmq_namesrv_topics", "Topics with a route", topics)
        open_now = counters.get("connections", 0)
        yield GaugeMetricFamily("rocketmq_namesrv_connections", "Open connections", open_now)
        refused = counters.get("connections_refused", 0)
        yield CounterMetricFamily(
            "rocketmq_namesrv_connections_refused", CONNECTIONS_REFUSED_HELP, refused
        )
        requests = CounterMetricFamily(
            "rocketmq_namesrv_requests",
            "Requests by code and data plane",
            labels=["code", "plane"],
        )
        for name, count in counters.items():
            plane, _, code = name.partition(".")
            if plane in ("native", "python"):
                requests.add_metric([code, plane], count)
        yield requests
        for name, help_text in TLS_COUNTERS.items():
            count = counters.get(name, 0)
            yield CounterMetricFamily(f"rocketmq_namesrv_{name}", help_text, count)
        failed = CounterMetricFamily(
            "rocketmq_namesrv_service_failures", services.HELP, labels=["service"]
        )
        for service, (count, _) in self._failures().items():
            failed.add_metric([service], count)
        yield failed
        bounds = CounterMetricFamily(
            "rocketmq_namesrv_bounds_reached", refusals.HELP, labels=["setting"]
        )
        for setting, count in sorted(routes.bounds.counts().items()):
            bounds.add_metric([setting], count)
        yield bounds
        name = f"rocketmq_namesrv_{CERTIFICATE_END}"
        yield GaugeMetricFamily(name, CERTIFICATE_END_HELP, self._certificate_end())

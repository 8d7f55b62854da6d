"""Writes the page of metrics from the metrics of a running broker and NameServer.

`make pages` updates docs/metrics.md. Needs the extra `metrics`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from mqserver.broker.metrics import BrokerMetrics
from mqserver.embedded.in_process import InProcessServers
from mqserver.embedded.standalone import SMALL_STORE
from mqserver.namesrv.metrics import NamesMetrics
from mqserver.namesrv.server import NameServer

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

HEAD = """# Metrics

`make pages` writes this page from the metrics of the servers.

`metricsListen=HOST:PORT` makes a server answer `/metrics` in the Prometheus format, and `/live` and
`/ready` for probes. It needs the extra `metrics` (`pip install 'mqstack[metrics]'`). Names that
RocketMQ 5 has (`BrokerMetricsConstant`) mean the same here; the others are our own. The name of a
counter ends in `_total`.
"""
BROKER_LABELS = "Every metric of a broker has the labels {labels}, and those in the table."


def page() -> str:
    """The page as Markdown."""
    with tempfile.TemporaryDirectory() as root:
        address = {"bindAddress": "127.0.0.1", "listenPort": "0"}
        store = {**SMALL_STORE, "storePathRootDir": root, "fastPortEnable": "false"}
        kv_file = f"{root}/kvConfig.json"
        pair = InProcessServers({**address, "kvConfigPath": kv_file}, {**address, **store})
        pair.start()
        try:
            assert pair.server is not None and pair.names is not None
            broker = list(BrokerMetrics(pair.server.context).collect())
            names = list(_names_metrics(pair.names).collect())
        finally:
            pair.stop()
    common = [label for label in _labels(broker[0]) if all(label in _labels(m) for m in broker)]
    listed = ", ".join(f"`{label}`" for label in common)
    lines = [HEAD, "## Broker\n", BROKER_LABELS.format(labels=listed), "", *_table(broker, common)]
    return "\n".join([*lines, "", "## NameServer\n", *_table(names, ()), ""])


def _names_metrics(server: NameServer) -> NamesMetrics:
    return NamesMetrics(server.names, server.counters, lambda: None, server.services.failures)


def _table(metrics: Iterable[Metric], common: Iterable[str]) -> Iterator[str]:
    yield "| metric | type | labels | meaning |"
    yield "|---|---|---|---|"
    for metric in sorted(metrics, key=lambda metric: metric.name):
        end = "_total" if metric.type == "counter" else ""
        labels = ", ".join(f"`{label}`" for label in _labels(metric) if label not in common)
        cells = (f"`{metric.name}{end}`", metric.type, labels, metric.documentation)
        yield f"| {' | '.join(cells)} |"


def _labels(metric: Metric) -> tuple[str, ...]:
    """The labels of a metric, which may have no sample yet."""
    return tuple(getattr(metric, "_labelnames", ()))

"""The metrics of a master's slaves, and of a slave."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily

from mqserver.broker.context import Replicas

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_OF_SLAVES = {
    "lag_bytes": ("rocketmq_ha_slave_lag_bytes", "Bytes of the log that a slave does not have yet"),
    "lag_ms": (
        "rocketmq_ha_slave_lag_latency",
        "Milliseconds since the first message was stored that a slave does not have yet",
    ),
    "bytes_per_second": ("rocketmq_ha_slave_bytes_per_second", "Bytes sent to a slave in a second"),
}
"""By the field of `_core.HaMaster.slaves`: the metric and its help."""
_OF_SLAVE = {
    "lag_bytes": (
        "rocketmq_ha_behind_bytes",
        "Bytes of the master's log that this slave does not have yet",
    ),
    "lag_ms": (
        "rocketmq_ha_behind_latency",
        "Milliseconds since this slave last had all that it knew its master to have",
    ),
}
"""By the field of `_core.HaSlave.status`: the metric and its help."""


def replication_metrics(
    replication: Replicas | None, common: Mapping[str, str]
) -> Iterator[Metric]:
    """Yield the metrics. common: labels of all metrics of the broker, with their values."""
    slaves = replication.slaves() if replication is not None else []
    count = GaugeMetricFamily("rocketmq_ha_slaves", "Connected slaves", labels=[*common])
    count.add_metric([*common.values()], len(slaves))
    yield count
    for field, (name, help_text) in _OF_SLAVES.items():
        family = GaugeMetricFamily(name, help_text, labels=[*common, "slave"])
        for row in slaves:
            if row[field] >= 0:
                family.add_metric([*common.values(), str(row["address"])], row[field])
        yield family
    status = replication.slave_status() if replication is not None else None
    for field, (name, help_text) in _OF_SLAVE.items():
        family = GaugeMetricFamily(name, help_text, labels=[*common])
        # A master, and a slave that has not heard of one, have no sample.
        if status is not None and status[field] >= 0:
            family.add_metric([*common.values()], status[field])
        yield family

"""A broker's metrics, with the names of RocketMQ 5 (`BrokerMetricsConstant`) where it has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily

from mqcommon import names
from mqserver.broker.context import BrokerContext
from mqserver.broker.replication.metrics import replication_metrics
from mqserver.broker.state.members import Member, language_name
from mqserver.broker.stats.statistics import GROUP_GET_NUMS, GROUP_GET_SIZE
from mqserver.broker.table import CODE_FAMILIES
from mqserver.runtime import refusals, services
from mqserver.runtime.descriptors import CONNECTIONS_REFUSED_HELP
from mqserver.tls.certificates import CERTIFICATE_END, CERTIFICATE_END_HELP, TLS_COUNTERS

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_WATERMARKS = sorted({*CODE_FAMILIES.values()})
_PROTOCOL = "remoting"
_NATIVE_BOUNDS = {"locks_refused": "queueLockMax", "offsets_refused": "consumerOffsetMax"}
_DISK_FIGURES = {"commitlog": "commitLogDiskRatio", "consumequeue": "consumeQueueDiskRatio"}
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


class BrokerMetrics:
    """The metrics of one broker, read at each request to `/metrics`."""

    def __init__(self, broker: BrokerContext) -> None:
        self._broker = broker
        settings = broker.settings
        self._common = {
            "cluster": settings.broker_cluster_name,
            "node_type": "broker",
            "node_id": settings.broker_name,
        }

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its present value."""
        figures, counters = self._broker.store.runtime(), self._broker.counters()
        yield self._gauge(
            "broker_permission",
            "Permission bits: 4 read, 2 write",
            self._broker.settings.broker_permission,
        )
        yield from self._tables()
        yield from self._storage(figures)
        yield from self._traffic(figures, counters)
        yield from self._tls(counters)
        yield from self._connections()
        yield self._service_failures()
        yield from replication_metrics(self._broker.replication, self._common)
        yield self._topics_in()
        yield self._groups_out("messages_out", "Messages read", GROUP_GET_NUMS)
        yield self._groups_out("throughput_out", "Bytes of messages read", GROUP_GET_SIZE)
        yield self._lags()

    def _tables(self) -> Iterator[Metric]:
        topics = self._broker.topics.wrapper().topic_config_table
        groups = self._broker.groups.all().subscription_group_table
        yield self._gauge("topic_number", "Topics", len(topics))
        yield self._gauge("consumer_group_number", "Consumer groups", len(groups))

    def _storage(self, figures: Mapping[str, str]) -> Iterator[Metric]:
        labels = {"storage_type": "local", "storage_medium": "disk"}
        store = self._broker.store
        size = store.max_physical_offset() - store.min_physical_offset()
        yield self._gauge("storage_size_bytes", "Bytes of the commit log", size, labels)
        behind = int(figures["dispatchBehindBytes"])
        yield self._gauge(
            "storage_dispatch_behind_bytes", "Bytes of the log not yet dispatched", behind, labels
        )
        unflushed = _bytes(figures["remainHowManyDataToFlush"])
        yield self._gauge("storage_flush_behind_bytes", "Bytes not yet flushed", unflushed, labels)
        times = store.store_time_range()
        reserve_ms = self._broker.now_ms() - times[0] if times else 0
        help_text = "Age of the first message"
        yield self._gauge(
            "storage_message_reserve_time_milliseconds", help_text, reserve_ms, labels
        )
        damaged = int(figures["damagedRecordsSkipped"])
        help_text = "Damaged records left out of replies"
        yield self._counter("storage_damaged_records_skipped", help_text, damaged)
        deleted = int(figures["delayedMessagesDeleted"])
        help_text = "Delayed messages deleted with old files before they were due"
        yield self._counter("storage_delayed_messages_deleted", help_text, deleted)
        repaired = int(figures["queueEntriesRepaired"])
        help_text = "Damaged consume queue entries made again from the commit log"
        yield self._counter("storage_queue_entries_repaired", help_text, repaired)
        refused = int(store.refusal() is not None)
        help_text = "Half messages that could not be checked and were set aside"
        yield self._counter("half_messages_set_aside", help_text, self._broker.copies.set_aside)
        yield self._gauge("storage_refuses_messages", "1 while sends are refused", refused, labels)
        yield self._disks(figures)

    def _disks(self, figures: Mapping[str, str]) -> Metric:
        """The disks of the commit log and of the consume queues, which may be two."""
        used = GaugeMetricFamily(
            "rocketmq_storage_disk_used_ratio",
            "Used part of the disk, 0 to 1",
            labels=self._labels("directory"),
        )
        for directory, figure in _DISK_FIGURES.items():
            if figure in figures:  # unknown while the disk cannot be measured
                used.add_metric(self._values(directory), float(figures[figure]))
        return used

    def _traffic(self, figures: Mapping[str, str], counters: Mapping[str, int]) -> Iterator[Metric]:
        yield self._counter(
            "throughput_in", "Bytes of messages stored", int(figures["putMessageSizeTotal"])
        )
        yield self._counter("network_in_bytes", "Bytes read", counters.get("bytes_in", 0))
        yield self._counter("network_out_bytes", "Bytes written", counters.get("bytes_out", 0))
        yield self._counter(
            "requests_overloaded", "Requests answered system busy", counters.get("overloaded", 0)
        )
        requests = CounterMetricFamily(
            "rocketmq_requests",
            "Requests by code and data plane",
            labels=self._labels("code plane"),
        )
        for name, count in counters.items():
            plane, _, code = name.partition(".")
            if plane in ("native", "python"):
                requests.add_metric(self._values(code, plane), count)
        yield requests
        yield self._bounds(counters)
        waiting = GaugeMetricFamily(
            "rocketmq_processor_watermark", "Requests waiting", labels=self._labels("processor")
        )
        for family in _WATERMARKS:
            waiting.add_metric(self._values(family), counters.get(f"waiting.{family}", 0))
        yield waiting
        yield self._gauge(
            "pending_acks",
            "Sends whose replies wait until their messages are durable",
            counters.get("pending_acks", 0),
        )
        yield self._counter(
            "replies_lost",
            "Replies to sends that were lost because writing them failed with a defect",
            counters.get("replies_lost", 0),
        )
        yield self._gauge("pulls_held", "Pulls held by long polling", counters.get("held", 0))
        yield self._gauge("connections", "Open connections", counters.get("connections", 0))
        refused = counters.get("connections_refused", 0)
        yield self._counter("connections_refused", CONNECTIONS_REFUSED_HELP, refused)

    def _bounds(self, counters: Mapping[str, int]) -> Metric:
        """Requests that the broker refused at a limit, by the setting of the limit."""
        found = CounterMetricFamily(
            "rocketmq_bounds_reached",
            refusals.HELP,
            labels=self._labels("setting"),
        )
        reached = Counter(self._broker.bounds.counts())
        for name, setting in _NATIVE_BOUNDS.items():
            reached[setting] += counters.get(name, 0)
        for setting, count in sorted(reached.items()):
            found.add_metric(self._values(setting), count)
        return found

    def _tls(self, counters: Mapping[str, int]) -> Iterator[Metric]:
        for name, help_text in TLS_COUNTERS.items():
            yield self._counter(name, help_text, counters.get(name, 0))
        end = self._broker.certificate_end()
        yield self._gauge(CERTIFICATE_END, CERTIFICATE_END_HELP, end)

    def _connections(self) -> Iterator[Metric]:
        extra = "language version protocol_type"
        producers = GaugeMetricFamily(
            "rocketmq_producer_connections", "Producers", labels=self._labels(extra)
        )
        members = {
            member.connection: member
            for rows in self._broker.producers.all().values()
            for member in rows
        }
        for key, count in Counter(map(_kind, members.values())).items():
            producers.add_metric(self._values(*key, _PROTOCOL), count)
        yield producers
        consumers = GaugeMetricFamily(
            "rocketmq_consumer_connections",
            "Consumers",
            labels=self._labels(f"consumer_group {extra} consume_mode is_system"),
        )
        for group in self._broker.groups.all().subscription_group_table:
            online = self._broker.consumers.get(group)
            if online is None:
                continue
            mode = "push" if online.consume_type == "CONSUME_PASSIVELY" else "pull"
            for key, count in Counter(map(_kind, online.members.values())).items():
                row = (group, *key, _PROTOCOL, mode, _is_system(group))
                consumers.add_metric(self._values(*row), count)
        yield consumers

    def _service_failures(self) -> Metric:
        found = CounterMetricFamily(
            "rocketmq_service_failures", services.HELP, labels=self._labels("service")
        )
        for service, (count, _) in self._broker.services.failures().items():
            found.add_metric(self._values(service), count)
        return found

    def _topics_in(self) -> Metric:
        """Messages that entered each topic's queues, counted by offsets, which never fall."""
        found = CounterMetricFamily(
            "rocketmq_messages_in",
            "Messages stored",
            labels=self._labels("topic is_system"),
        )
        store = self._broker.store
        for topic, config in self._broker.topics.wrapper().topic_config_table.items():
            queues = range(max(config.read_queue_nums, config.write_queue_nums))
            count = sum(store.max_offset(topic, queue_id) for queue_id in queues)
            if count:
                system = self._broker.topics.is_system(topic)
                found.add_metric(self._values(topic, _word(system)), count)
        return found

    def _groups_out(self, name: str, help_text: str, item: str) -> Metric:
        """A counter of each group's reads of each topic."""
        found = CounterMetricFamily(
            f"rocketmq_{name}",
            help_text,
            labels=self._labels("topic consumer_group is_retry is_system"),
        )
        for key, total in self._broker.stats.totals(item).items():
            topic, _, group = key.partition("@")
            is_retry = _word(topic.startswith(names.RETRY_PREFIX))
            found.add_metric(self._values(topic, group, is_retry, _is_system(group)), total)
        return found

    def _lags(self) -> Metric:
        lags = GaugeMetricFamily(
            "rocketmq_consumer_lag_messages",
            "Messages not yet consumed",
            labels=self._labels("consumer_group topic is_retry is_system"),
        )
        store = self._broker.store
        groups, topics = self._broker.groups, self._broker.topics
        for key, row in store.committed_all().items():
            topic, _, group = key.partition("@")
            if groups.get(group) is None or topics.get(topic) is None:
                continue  # the offset of an unknown group or topic, which any client can commit
            lag = sum(max(0, store.max_offset(topic, queue) - at) for queue, at in row.items())
            is_retry = _word(topic.startswith(names.RETRY_PREFIX))
            lags.add_metric(self._values(group, topic, is_retry, _is_system(group)), lag)
        return lags

    def _gauge(
        self, name: str, help_text: str, value: float | None, extra: Mapping[str, str] | None = None
    ) -> Metric:
        """A gauge; without a value it has no sample."""
        extra = extra or {}
        found = GaugeMetricFamily(f"rocketmq_{name}", help_text, labels=[*self._common, *extra])
        if value is not None:
            found.add_metric([*self._common.values(), *extra.values()], value)
        return found

    def _counter(self, name: str, help_text: str, value: float) -> Metric:
        found = CounterMetricFamily(f"rocketmq_{name}", help_text, labels=[*self._common])
        found.add_metric([*self._common.values()], value)
        return found

    def _labels(self, extra: str) -> list[str]:
        return [*self._common, *extra.split()]

    def _values(self, *extra: str) -> list[str]:
        return [*self._common.values(), *extra]


def _bytes(readable: str) -> int:
    """Parse sizes such as "0 B" or "5.6 KiB", which the runtime information has."""
    number, unit = readable.split()
    return int(float(number) * 1024 ** _UNITS.index(unit))


def _kind(member: Member) -> tuple[str, str]:
    return language_name(member.language).lower(), str(member.version)


def _is_system(group: str) -> str:
    return _word(group in names.SYSTEM_GROUPS or group.startswith(names.SYSTEM_GROUP_PREFIX))


def _word(value: bool) -> str:
    return str(value).lower()

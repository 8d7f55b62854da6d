"""Settings of consumers: frozen value objects, checked when they are made.

Durations are seconds, as float or timedelta; sizes are bytes. RocketMQ's defaults and limits.
"""

import os
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, NamedTuple

from mqclient.consumer.allocation import Allocation
from mqclient.settings.checks import (
    Duration,
    check_group,
    check_range,
    check_sendable,
    check_topic,
    check_type,
    set_seconds,
)
from mqclient.settings.clients import ClientOptions
from mqcommon import names

__all__ = ["ConsumerSettings", "LitePullSettings"]

ConsumeFrom = Literal["latest", "earliest"] | datetime


class QueueLimits(NamedTuple):
    """What may be held of one queue: messages, bytes, and the span of their offsets."""

    messages: int
    size: int
    span: int | None = None
    """None: not limited."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ConsumerSettings:
    """How a push consumer reads. Ranges are RocketMQ's.

    group: consumer group.
    consume_from: start of a group without a committed offset: "earliest", "latest" or a time.
    model: with "clustering" the members share the queues; with "broadcasting" each member reads
    all queues.
    offset_store: file for the offsets of one broadcasting consumer, in the format of RocketMQ's
    LocalFileOffsetStore; without a file, a restart begins at consume_from again.
    allocate: how members share queues, equal in all members: "AVG", "AVG_BY_CIRCLE",
    "CONSISTENT_HASH", a function of (client_id, queues, client_ids) that returns this member's
    queues, or a list of the queues to read.
    orderly: handle one batch of a queue at a time; a failed message is handled again before the
    next one.
    suspend_current_queue_timeout: pause before an orderly queue handles a failed message again.
    threads: handlers that run in parallel.
    batch_size: most messages that a handler gets in one call.
    pull_batch: most messages that one pull requests.
    pull_interval: pause between two pulls of a queue.
    queue_count_max: messages held of one queue above which pulling pauses.
    queue_bytes_max: bytes of messages held of one queue above which pulling pauses.
    queue_span_max: distance between the lowest and the highest held offset of one queue above which
    pulling pauses; orderly consumers ignore it.
    topic_count_max: messages held of a topic, divided evenly over all queues that the consumer
    reads; replaces queue_count_max; -1 sets no limit.
    topic_bytes_max: bytes held of a topic, divided evenly over all queues that the consumer reads;
    replaces queue_bytes_max; -1 sets no limit.
    retries_max: most redeliveries of a failed message; -1 takes the group's retryMaxTimes, or no
    limit for orderly consumers.
    consume_timeout: time after which a message whose handler still runs is sent back to the
    broker; orderly consumers ignore it.
    commit_interval: time between two commits of the offsets.
    rebalance_interval: time between two rebalances.
    suspend: longest time for which the broker holds a pull that finds no message.
    trace: send records of each handler call to trace_topic, for RocketMQ's mqadmin
    queryMsgTraceById.
    trace_topic: topic for the trace records.
    """

    group: str
    consume_from: ConsumeFrom = "latest"
    model: Literal["clustering", "broadcasting"] = "clustering"
    offset_store: str | os.PathLike[str] | None = None
    allocate: Allocation = "AVG"
    orderly: bool = False
    suspend_current_queue_timeout: float = 1.0
    threads: int = 20
    batch_size: int = 1
    pull_batch: int = 32
    pull_interval: float = 0.0
    queue_count_max: int = 1000
    queue_bytes_max: int = 100 * 1024 * 1024
    queue_span_max: int = 2000
    topic_count_max: int = -1
    topic_bytes_max: int = -1
    retries_max: int = -1
    consume_timeout: float = 900.0
    commit_interval: float = 5.0
    rebalance_interval: float = 20.0
    suspend: float = 15.0
    trace: bool = False
    trace_topic: str = names.TRACE_TOPIC

    def __post_init__(self) -> None:
        check_group(self.group)
        check_type("trace", self.trace, bool, "bool")
        check_sendable(self.trace_topic)
        check_type("orderly", self.orderly, bool, "bool")
        check_topic(names.retry_topic(self.group))  # the retry topic must be legal too
        check_start(self.consume_from)
        if self.model not in ("clustering", "broadcasting"):
            raise ValueError(f"model {self.model!r} is neither 'clustering' nor 'broadcasting'")
        self._check_offset_store()
        check_range("threads", self.threads, 1, 1000)
        check_range("batch_size", self.batch_size, 1, 1024)
        check_range("pull_batch", self.pull_batch, 1, 1024)
        check_range("queue_count_max", self.queue_count_max, 1, 65535)
        check_range("queue_bytes_max", self.queue_bytes_max, 1, 1 << 30)
        check_range("queue_span_max", self.queue_span_max, 1, 65535)
        if self.topic_count_max != -1:
            check_range("topic_count_max", self.topic_count_max, 1, 6_553_500)
        if self.topic_bytes_max != -1:
            check_range("topic_bytes_max", self.topic_bytes_max, 1, 100 << 30)
        check_range("retries_max", self.retries_max, -1, 1 << 30)
        for name in (
            *("consume_timeout", "commit_interval", "rebalance_interval", "suspend"),
            "suspend_current_queue_timeout",
        ):
            set_seconds(self, name, 0.01)
        set_seconds(self, "pull_interval", 0.0)

    def queue_limits(self, queues: int = 1) -> QueueLimits:
        """What may be held of one queue. queues: how many the consumer reads, of all topics.

        Rules: RocketMQ 4.9 `RebalancePushImpl.messageQueueChanged`.
        """
        count, size = self.queue_count_max, self.queue_bytes_max
        if self.topic_count_max != -1:
            count = max(1, self.topic_count_max // max(1, queues))
        if self.topic_bytes_max != -1:
            size = max(1, self.topic_bytes_max // max(1, queues))
        return QueueLimits(count, size, None if self.orderly else self.queue_span_max)

    def _check_offset_store(self) -> None:
        if self.offset_store is None:
            return
        check_type("offset_store", self.offset_store, str | os.PathLike, "a path")
        if self.model == "clustering":
            raise ValueError(
                "offset_store is for model='broadcasting'; brokers keep the offsets of a group "
                "that shares its queues: leave offset_store out"
            )
        object.__setattr__(self, "offset_store", os.path.abspath(os.fspath(self.offset_store)))


@dataclass(frozen=True, kw_only=True, slots=True)
class LitePullSettings:
    """How a lite pull consumer reads. Defaults and ranges are RocketMQ's, unless it says otherwise.

    group: consumer group; None reads assigned queues without a group and commits nothing.
    consume_from: start of a queue without a committed offset: "earliest", "latest" or a time.
    allocate: how the members of a group that subscribes share queues, as for ConsumerSettings.
    auto_commit: commit positions regularly, when the consumer loses a queue, and at close.
    auto_commit_interval: time between two regular commits.
    pull_batch: most messages that one pull requests; RocketMQ requests 10, which halves the rate.
    queue_count_max: messages held of one queue above which its pulling pauses.
    queue_bytes_max: bytes of messages held of one queue above which its pulling pauses.
    queue_span_max: distance between the lowest and the highest held offset of one queue above which
    its pulling pauses.
    total_count_max: messages held of all queues above which pulling pauses.
    total_bytes_max: bytes of messages held of all queues above which pulling pauses; RocketMQ has
    no such limit.
    rebalance_interval: time between two rebalances.
    suspend: longest time for which the broker holds a pull that finds no message.
    """

    group: str | None = None
    consume_from: ConsumeFrom = "latest"
    allocate: Allocation = "AVG"
    auto_commit: bool = True
    auto_commit_interval: float = 5.0
    pull_batch: int = 32
    queue_count_max: int = 1000
    queue_bytes_max: int = 100 * 1024 * 1024
    queue_span_max: int = 2000
    total_count_max: int = 10_000
    total_bytes_max: int = 512 * 1024 * 1024
    rebalance_interval: float = 20.0
    suspend: float = 20.0

    def __post_init__(self) -> None:
        if self.group is not None:
            check_group(self.group)
        check_start(self.consume_from)
        check_type("auto_commit", self.auto_commit, bool, "bool")
        check_range("pull_batch", self.pull_batch, 1, 1024)
        check_range("queue_count_max", self.queue_count_max, 1, 65535)
        check_range("queue_bytes_max", self.queue_bytes_max, 1, 1 << 30)
        check_range("queue_span_max", self.queue_span_max, 1, 65535)
        check_range("total_count_max", self.total_count_max, 1, 1 << 31)
        check_range("total_bytes_max", self.total_bytes_max, 1, 1 << 40)
        for name in ("auto_commit_interval", "rebalance_interval", "suspend"):
            set_seconds(self, name, 0.01)

    @property
    def model(self) -> Literal["clustering"]:
        """The members of a group share the queues; to read every queue, assign them all."""
        return "clustering"

    def queue_limits(self, _queues: int = 1) -> QueueLimits:
        """What may be held of one queue."""
        return QueueLimits(self.queue_count_max, self.queue_bytes_max, self.queue_span_max)


class ConsumerOptions(ClientOptions, total=False):
    """Keyword arguments of a push consumer: the fields of ConsumerSettings and ClientOptions."""

    consume_from: ConsumeFrom
    model: Literal["clustering", "broadcasting"]
    offset_store: str | os.PathLike[str] | None
    allocate: Allocation
    orderly: bool
    suspend_current_queue_timeout: Duration
    threads: int
    batch_size: int
    pull_batch: int
    pull_interval: Duration
    queue_count_max: int
    queue_bytes_max: int
    queue_span_max: int
    topic_count_max: int
    topic_bytes_max: int
    retries_max: int
    consume_timeout: Duration
    commit_interval: Duration
    rebalance_interval: Duration
    suspend: Duration
    trace: bool
    trace_topic: str


class LitePullOptions(ClientOptions, total=False):
    """Keyword arguments of a lite pull consumer: LitePullSettings' fields and ClientOptions."""

    consume_from: ConsumeFrom
    allocate: Allocation
    auto_commit: bool
    auto_commit_interval: Duration
    pull_batch: int
    queue_count_max: int
    queue_bytes_max: int
    queue_span_max: int
    total_count_max: int
    total_bytes_max: int
    rebalance_interval: Duration
    suspend: Duration


def check_start(start: object, name: str = "consume_from") -> None:
    """Raise ValueError unless `start` is "latest", "earliest" or an aware datetime."""
    if start in ("latest", "earliest"):
        return
    if not isinstance(start, datetime):
        raise ValueError(f"{name} {start!r} is not 'latest', 'earliest' or a datetime")
    if start.tzinfo is None:
        raise ValueError(f"{name} needs a datetime with a time zone: datetime.now(UTC)")

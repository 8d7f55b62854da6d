"""Settings of producers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from mqclient.producer.compression import Compression, check_compression
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

__all__ = ["ProducerSettings", "TransactionSettings"]

BODY_BYTES_MAX = 4 * 1024 * 1024
BeforeSend = Callable[[Any], object]
"""Gets the message, or the list of messages, that will be sent."""
AfterSend = Callable[[Any, Any, Exception | None], object]
"""Gets the message or list, its SendResult or None, and the exception or None."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ProducerSettings:
    """How a producer sends.

    group: producer group.
    timeout: longest time for a whole send, retries included.
    retries: most retries of a failed send; None retries until the timeout.
    retry_not_durable: send again to another broker if the first one stored the message less
    durably than requested; makes duplicates.
    compress_from: smallest body in bytes that is compressed; 0 compresses nothing.
    compression: "zlib", which every consumer reads, "zstd" or "lz4" (extra `lz4`).
    compress_level: level of zlib, 0 to 9, or of zstd, 1 to 22; higher is smaller and slower.
    body_bytes_max: largest body in bytes; a larger message raises ValueError.
    default_topic_queues: queues of a topic that the broker creates on the first send.
    queue_index_start: index of the first queue to use; None starts at a random one, as RocketMQ
    does.
    linger: time for which a send waits for other messages of its topic, to leave with them as one
    batch; 0 sends at once.
    linger_count_max: messages at which a lingering batch leaves without further waiting.
    linger_bytes_max: bytes at which a lingering batch leaves without further waiting.
    latency_fault: avoid brokers with slow or failed sends, as sendLatencyFaultEnable does.
    before_send: function called before each send, with the message or the list of messages.
    after_send: function called after each send, with the message or list, the SendResult or None,
    and the exception or None.
    in_flight_max: most messages in flight; further sends wait until their timeout; None sets no
    limit.
    in_flight_bytes_max: most bytes of bodies in flight; further sends wait until their timeout;
    None sets no limit.
    trace: send a record of each stored message to trace_topic, for RocketMQ's mqadmin
    queryMsgTraceById.
    trace_topic: topic for the trace records.
    """

    group: str = "PYTHON_PRODUCER"
    timeout: float = 3.0
    retries: int | None = None
    retry_not_durable: bool = False
    compress_from: int = 4096
    compression: Compression = "zlib"
    compress_level: int = 5
    body_bytes_max: int = BODY_BYTES_MAX
    default_topic_queues: int = 4
    queue_index_start: int | None = None
    linger: float = 0.0
    linger_count_max: int = 128
    linger_bytes_max: int = 256 * 1024
    latency_fault: bool = False
    before_send: BeforeSend | None = None
    after_send: AfterSend | None = None
    in_flight_max: int | None = None
    in_flight_bytes_max: int | None = None
    trace: bool = False
    trace_topic: str = names.TRACE_TOPIC

    def __post_init__(self) -> None:
        check_group(self.group)
        set_seconds(self, "timeout", 0.001)
        if self.retries is not None:
            check_range("retries", self.retries, 0, 100)
        check_range("compress_from", self.compress_from, 0, 1 << 31)
        check_range("compress_level", self.compress_level, *check_compression(self.compression))
        check_range("body_bytes_max", self.body_bytes_max, 1, 1 << 30)
        set_seconds(self, "linger", 0.0)
        check_range("linger_count_max", self.linger_count_max, 1, 10_000)
        check_range("linger_bytes_max", self.linger_bytes_max, 1, 1 << 30)
        check_range("default_topic_queues", self.default_topic_queues, 1, 65535)
        check_type("retry_not_durable", self.retry_not_durable, bool, "bool")
        for name in ("trace", "latency_fault"):
            check_type(name, getattr(self, name), bool, "bool")
        for name in ("before_send", "after_send"):
            check_type(name, getattr(self, name), Callable | None, "a function")
        for name in ("in_flight_max", "in_flight_bytes_max"):
            if getattr(self, name) is not None:
                check_range(name, getattr(self, name), 1, 1 << 40)
        check_sendable(self.trace_topic)
        if self.queue_index_start is not None:
            check_range("queue_index_start", self.queue_index_start, 0, 1 << 31)


@dataclass(frozen=True, kw_only=True, slots=True)
class TransactionSettings(ProducerSettings):
    """How a transaction producer sends, and answers brokers' checks.

    check_concurrency: checks that run in parallel.
    check_backlog: most checks that wait to run; further checks are dropped, and the
    broker asks again later.
    topics: topics to announce the producer for at its start, so that their brokers can send it
    checks for messages from before a restart; needed only if the brokers do not create topics
    (autoCreateTopicEnable=false).
    """

    check_concurrency: int = 1
    check_backlog: int = 2000
    topics: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        ProducerSettings.__post_init__(self)
        check_range("check_concurrency", self.check_concurrency, 1, 1000)
        check_range("check_backlog", self.check_backlog, 1, 1_000_000)
        if isinstance(self.topics, str):
            raise TypeError("topics must be a list of topics, not str")
        object.__setattr__(self, "topics", tuple(map(check_topic, self.topics)))


class SendOptions(ClientOptions, total=False):
    """Keyword arguments of every producer: the fields of ProducerSettings without its group, and of
    ClientOptions.
    """

    timeout: Duration
    retries: int | None
    retry_not_durable: bool
    compress_from: int
    compression: Compression
    compress_level: int
    body_bytes_max: int
    default_topic_queues: int
    queue_index_start: int | None
    linger: Duration
    linger_count_max: int
    linger_bytes_max: int
    latency_fault: bool
    before_send: BeforeSend | None
    after_send: AfterSend | None
    in_flight_max: int | None
    in_flight_bytes_max: int | None
    trace: bool
    trace_topic: str


class ProducerOptions(SendOptions, total=False):
    """Keyword arguments of a producer: SendOptions and its group."""

    group: str


class TransactionOptions(SendOptions, total=False):
    """Keyword arguments of a transaction producer: SendOptions and TransactionSettings' fields."""

    check_concurrency: int
    check_backlog: int
    topics: Iterable[str]

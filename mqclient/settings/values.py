"""Groups of options that belong together: frozen values, checked when they are made."""

from dataclasses import KW_ONLY
from typing import Annotated, Any, Literal

from mqclient.settings.checks import check_sendable
from mqclient.settings.declare import ANSWER_MAX_S, Declared, Option, declared
from mqcommon import extras, names

__all__ = [
    "CheckLimits",
    "Compression",
    "Limits",
    "Linger",
    "LitePull",
    "LitePullLimits",
    "Orderly",
    "Pull",
    "Retry",
    "SendLimits",
    "Trace",
]

COUNT_MAX = 1 << 31
BYTES_MAX = 1 << 40


@declared
class Retry(Declared):
    """When a producer sends a message again."""

    _: KW_ONLY
    max_retries: Annotated[
        int | None,
        Option("most retries of a failed send; None retries until the timeout", "", 0, 100),
    ] = None
    not_durable: Annotated[
        bool,
        Option(
            "send again to another broker if the first one stored the message less durably than "
            "requested; makes duplicates"
        ),
    ] = False


@declared
class Linger(Declared):
    """How long a send waits for other messages of its topic, to leave with them as one batch.

    Linger(0.005)
    """

    wait: Annotated[float, Option("longest time that a send waits", "s", 0.0001, 1)] = 0.005
    _: KW_ONLY
    max_messages: Annotated[
        int, Option("a batch of this many leaves without further waiting", "messages", 1, 10_000)
    ] = 128
    max_bytes: Annotated[
        int, Option("a batch of this size leaves without further waiting", "bytes", 1, 1 << 30)
    ] = 256 * 1024


@declared
class SendLimits(Declared):
    """The limits on messages in flight; a send over a limit waits for room until its timeout.

    A blocking `send` does not count: its thread waits for the answer. The defaults are RocketMQ's
    (`DefaultMQProducer.setBackPressureForAsyncSendNum`).
    """

    _: KW_ONLY
    max_messages: Annotated[
        int | None, Option("most messages in flight; None sets no limit", "messages", 1, BYTES_MAX)
    ] = 10_000
    max_bytes: Annotated[
        int | None,
        Option("most bytes of bodies in flight; None sets no limit", "bytes", 1, BYTES_MAX),
    ] = 100 * 1024 * 1024


@declared
class Limits(Declared):
    """The limits on messages that a consumer holds, unhandled; above a limit pulling pauses."""

    _: KW_ONLY
    queue_messages: Annotated[int, Option("messages held of one queue", "messages", 1, 65_535)] = (
        1000
    )
    queue_bytes: Annotated[
        int, Option("bytes of messages held of one queue", "bytes", 1, 1 << 30)
    ] = 100 * 1024 * 1024
    queue_offset_span: Annotated[
        int,
        Option(
            "distance between the lowest and the highest held offset of one queue; orderly "
            "consumers ignore it",
            "messages",
            1,
            65_535,
        ),
    ] = 2000
    total_messages: Annotated[
        int | None,
        Option(
            "messages held of all queues; a push consumer divides it evenly over its queues, "
            "instead of queue_messages; None sets no limit",
            "messages",
            1,
            COUNT_MAX,
        ),
    ] = None
    total_bytes: Annotated[
        int | None,
        Option(
            "bytes held of all queues; a push consumer divides it evenly over its queues, instead "
            "of queue_bytes; None sets no limit",
            "bytes",
            1,
            BYTES_MAX,
        ),
    ] = None


@declared
class LitePullLimits(Limits):
    """The limits of a lite pull consumer: `Limits` with limits of all queues by default."""

    _: KW_ONLY
    total_messages: Annotated[
        int | None,
        Option("messages held of all queues; None sets no limit", "messages", 1, COUNT_MAX),
    ] = 10_000
    total_bytes: Annotated[
        int | None, Option("bytes held of all queues; None sets no limit", "bytes", 1, BYTES_MAX)
    ] = 512 * 1024 * 1024


PullBatch = Annotated[int, Option("most messages that one pull requests", "messages", 1, 1024)]
LongPollTimeout = Annotated[
    float,
    Option(
        "longest time for which the broker holds a pull that finds no message",
        "s",
        0.01,
        ANSWER_MAX_S,
    ),
]


@declared
class Pull(Declared):
    """How a push consumer pulls messages from brokers."""

    _: KW_ONLY
    batch: PullBatch = 32
    interval: Annotated[float, Option("pause between two pulls of a queue", "s", 0, 60)] = 0.0
    long_poll_timeout: LongPollTimeout = 15.0


@declared
class LitePull(Declared):
    """How a lite pull consumer pulls messages from brokers."""

    refused = {"interval": "interval is for push consumers; leave it out"}

    _: KW_ONLY
    batch: PullBatch = 32
    long_poll_timeout: LongPollTimeout = 20.0


@declared
class Orderly(Declared):
    """How a push consumer handles each queue in order."""

    _: KW_ONLY
    retry_delay: Annotated[
        float, Option("pause before a queue handles a failed message again", "s", 0.01, 30)
    ] = 1.0


@declared
class CheckLimits(Declared):
    """The limits on checks of transactions that a producer runs and keeps waiting."""

    _: KW_ONLY
    concurrency: Annotated[int, Option("checks that run in parallel", "checks", 1, 1000)] = 1
    queue_max: Annotated[
        int,
        Option(
            "most checks that wait to run; further checks are dropped, and the broker asks again "
            "later",
            "checks",
            1,
            1_000_000,
        ),
    ] = 2000


def _sendable(name: str, topic: Any) -> str:
    if not isinstance(topic, str):
        raise TypeError(f"{name} must be str, not {type(topic).__name__}")
    return check_sendable(topic)


@declared
class Trace(Declared):
    """Records of messages, for RocketMQ's mqadmin queryMsgTraceById."""

    topic: Annotated[str, Option("topic that gets the records", read=_sendable, kind="str")] = (
        names.TRACE_TOPIC
    )


Method = Literal["zlib", "lz4", "zstd"]
_LEVELS = {"zlib": (0, 9), "lz4": (0, 22), "zstd": (1, 22)}


@declared
class Compression(Declared):
    """How a producer compresses bodies.

    Compression("zstd", level=3)
    """

    method: Annotated[
        Method, Option('"zlib", which every consumer reads, "zstd", or "lz4" (extra `lz4`)')
    ] = "zlib"
    _: KW_ONLY
    level: Annotated[
        int,
        Option("0 to 9 for zlib, 1 to 22 for zstd; higher is smaller and slower", "", 0, 22),
    ] = 5
    threshold: Annotated[int, Option("smallest body that is compressed", "bytes", 1, COUNT_MAX)] = (
        4096
    )

    def _check(self) -> None:
        low, high = _LEVELS[self.method]
        if not low <= self.level <= high:
            raise ValueError(f"level must be {low} to {high} for {self.method!r}, not {self.level}")
        if self.method == "lz4":
            extras.load("lz4.frame", "Compression('lz4')")

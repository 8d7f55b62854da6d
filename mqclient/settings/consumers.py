"""Options of consumers. Defaults and ranges are RocketMQ's, unless an option says otherwise."""

import os
from collections.abc import Iterable
from dataclasses import KW_ONLY
from datetime import datetime
from typing import Annotated, Any, Generic, Literal

from mqclient.consumer.allocation import Allocation, strategy_of
from mqclient.engine.metrics import ClientMetrics
from mqclient.engine.middleware import Middleware, middleware_of
from mqclient.engine.namespace import Namespace
from mqclient.engine.serializing import Deserialize, W, check_deserializer
from mqclient.settings.checks import check_group, check_topic
from mqclient.settings.clients import COUNTS, ClientOptions, Namesrv
from mqclient.settings.declare import (
    DAY_S,
    INTERVAL_MAX_S,
    Option,
    by_value,
    declared,
)
from mqclient.settings.values import Limits, LitePull, LitePullLimits, Orderly, Pull, Trace
from mqcommon import names

__all__ = ["LitePullOptions", "PushOptions"]

COMMIT_INTERVAL_MAX_S = 600

ConsumeFrom = Literal["latest", "earliest"] | datetime


def _start(name: str, start: Any) -> Any:
    """The start of a group. Raises ValueError for all but "latest", "earliest", aware datetimes."""
    if start in ("latest", "earliest"):
        return start
    if not isinstance(start, datetime):
        raise ValueError(f"{name} {start!r} is not 'latest', 'earliest' or a datetime")
    if start.tzinfo is None:
        raise ValueError(f"{name} needs a datetime with a time zone: datetime.now(UTC)")
    return start


def _shared_group(group: str) -> str:
    """A group that also names a legal retry topic."""
    check_topic(names.retry_topic(check_group(group)))
    return group


def _allocate(_name: str, allocation: Any) -> Any:
    strategy_of(allocation)
    return allocation


def _path(name: str, path: Any) -> str:
    if not isinstance(path, (str, os.PathLike)):
        raise TypeError(f"{name} must be a path or None, not {path!r}")
    return os.path.abspath(os.fspath(path))


Start = Annotated[
    ConsumeFrom,
    Option(
        'start of a queue without a committed offset: "earliest", "latest" or an aware datetime',
        read=_start,
        kind="'latest' | 'earliest' | datetime",
    ),
]
Allocate = Annotated[
    Allocation,
    Option(
        'how members share queues, equal in all members: "AVG", "AVG_BY_CIRCLE", '
        '"CONSISTENT_HASH", a function of (client_id, queues, client_ids) that returns this '
        "member's queues, or a list of the queues to read",
        read=_allocate,
        kind="str | Callable | list[MessageQueue]",
    ),
]
RebalanceInterval = Annotated[
    float, Option("time between two rebalances", "s", 0.01, INTERVAL_MAX_S)
]


def _orderly(name: str, orderly: Any) -> Any:
    if not isinstance(orderly, (bool, Orderly)):
        raise TypeError(f"{name} must be bool or an Orderly, not {orderly!r}")
    return orderly


def _refuse_ignored(options: ClientOptions, name: str, why: str) -> None:
    """Raise ValueError for an option that has a value and that this consumer would ignore."""
    value = getattr(options, name)
    if value != type(options).__dataclass_fields__[name].default:
        raise ValueError(f"{name}={value!r} would be ignored: {why}")


READS = Option(
    "reads `value` of messages when it is first asked for: an object with loads(body), such as "
    "Json(), or a function of the body; with None the value is the body",
    read=check_deserializer,
    kind="Deserializer | Callable",
)


@declared
class PushOptions(ClientOptions, Generic[W]):
    """Options of a push consumer."""

    group: Annotated[
        str,
        Option(
            "consumer group; its members share the queues", read=by_value(_shared_group), kind="str"
        ),
    ]
    namesrv: Namesrv = None
    _: KW_ONLY
    consume_from: Start = "latest"
    model: Annotated[
        Literal["clustering", "broadcasting"],
        Option(
            'with "clustering" the members share the queues; with "broadcasting" each member '
            "reads all queues"
        ),
    ] = "clustering"
    offset_store: Annotated[
        str | os.PathLike[str] | None,
        Option(
            "file for the offsets of one broadcasting consumer, in the format of RocketMQ's "
            "LocalFileOffsetStore; without a file, a restart begins at consume_from again",
            read=_path,
            kind="str | PathLike",
        ),
    ] = None
    allocate: Allocate = "AVG"
    orderly: Annotated[
        bool | Orderly,
        Option(
            "handle one batch of a queue at a time; a failed message is handled again before the "
            "next one; True means Orderly()",
            read=_orderly,
            kind="bool | Orderly",
        ),
    ] = False
    max_retries: Annotated[
        int | None,
        Option(
            "most redeliveries of a failed message; None takes the group's retryMaxTimes, or no "
            "limit for orderly consumers",
            "",
            0,
            1 << 30,
        ),
    ] = None
    threads: Annotated[int, Option("handlers that run in parallel", "threads", 1, 1000)] = 20
    batch_size: Annotated[
        int, Option("most messages that a handler gets in one call", "messages", 1, 1024)
    ] = 1
    consume_timeout: Annotated[
        float,
        Option(
            "time after which a message whose handler still runs is sent back to the broker; "
            "orderly consumers ignore it",
            "s",
            0.01,
            DAY_S,
        ),
    ] = 900.0
    deserializer: Annotated[Deserialize[W] | None, READS] = None
    middleware: Annotated[
        Iterable[Middleware],
        Option(
            "generator functions around each call of a handler, the first one outermost; each gets "
            "(messages, context) and yields once",
            read=middleware_of("messages"),
            kind="list[Callable]",
        ),
    ] = ()
    limits: Annotated[Limits, Option("messages and bytes held, above which pulling pauses")] = (
        Limits()
    )
    pull: Annotated[
        Pull, Option("messages of one pull, pause between pulls, time of a long poll")
    ] = Pull()
    commit_interval: Annotated[
        float, Option("time between two commits of the offsets", "s", 0.01, COMMIT_INTERVAL_MAX_S)
    ] = 5.0
    rebalance_interval: RebalanceInterval = 20.0
    metrics: Annotated[ClientMetrics | None, COUNTS] = None
    trace: Annotated[Trace | None, Option("send records of each handler call; None sends none")] = (
        None
    )

    def _check(self) -> None:
        if self.offset_store is not None and self.model == "clustering":
            raise ValueError(
                "offset_store is for model='broadcasting'; brokers keep the offsets of a group "
                "that shares its queues: leave offset_store out"
            )
        if self.model == "broadcasting":
            clustering = "it is for model='clustering'; here"
            why = f"{clustering} each member reads all queues; leave it out"
            _refuse_ignored(self, "allocate", why)
            if not self.orderly:
                why = f"{clustering} a failed message is dropped; leave it out"
                _refuse_ignored(self, "max_retries", why)
        wrapped = Namespace(self.namespace).wrap(self.group)
        object.__setattr__(self, "group", _shared_group(wrapped))

    @property
    def retry_delay(self) -> float:
        """Seconds before an orderly queue handles a failed message again."""
        order = self.orderly if isinstance(self.orderly, Orderly) else Orderly()
        return order.retry_delay


@declared
class LitePullOptions(ClientOptions, Generic[W]):
    """Options of a lite pull consumer."""

    group: Annotated[
        str | None,
        Option(
            "consumer group; None reads assigned queues without a group and commits nothing",
            read=by_value(check_group),
            kind="str",
        ),
    ] = None
    namesrv: Namesrv = None
    _: KW_ONLY
    consume_from: Start = "latest"
    allocate: Allocate = "AVG"
    commit_interval: Annotated[
        float | None,
        Option(
            "time between two commits of the positions, which are also committed when the "
            "consumer loses a queue, and at close; None commits only by `commit()`",
            "s",
            0.01,
            COMMIT_INTERVAL_MAX_S,
        ),
    ] = 5.0
    deserializer: Annotated[Deserialize[W] | None, READS] = None
    limits: Annotated[
        LitePullLimits, Option("messages and bytes held, above which pulling pauses")
    ] = LitePullLimits()
    pull: Annotated[LitePull, Option("messages of one pull, time of a long poll")] = LitePull()
    rebalance_interval: RebalanceInterval = 20.0
    metrics: Annotated[ClientMetrics | None, COUNTS] = None

    def _check(self) -> None:
        if self.group is None and self.commit_interval is not None:
            why = "a consumer without a group commits nothing; name a group, or leave it out"
            _refuse_ignored(self, "commit_interval", why)
        if self.group is not None:
            wrapped = Namespace(self.namespace).wrap(self.group)
            object.__setattr__(self, "group", check_group(wrapped))

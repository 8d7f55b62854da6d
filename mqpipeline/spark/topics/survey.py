"""Questions of a driver before tasks run: the queues, their extents, and the start."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from mqclient.errors import ClientTimeout, NoRouteError, RocketMQError, UnreachableError
from mqcommon.backoff import Backoff
from mqcommon.message import MessageQueue
from mqpipeline.spark.topics.cluster import Cluster, DataLossError, Extent
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.plan import offset_key, queue_of
from mqpipeline.spark.topics.positions import EARLIEST, LATEST, GroupStart, Position

__all__ = [
    "check_filter",
    "fewer_queues",
    "patiently",
    "queues_of",
    "reached",
    "resolve",
    "topics_of",
]

T = TypeVar("T")
_log = logging.getLogger(__name__)

PAUSE_FIRST_S = 0.2
"""Seconds before the second attempt; each further pause is twice as long, up to PAUSE_MAX_S."""
PAUSE_MAX_S = 2.0


def patiently(options: Options, ask: Callable[[Cluster], T]) -> T:
    """Ask until servers answer, with a new connection each time, for `retryTimeout` seconds.

    Failures that a restart of a broker or of the NameServers causes are retried. Any other error is
    raised at once, also a missing topic while brokers are registered.
    """
    deadline = time.monotonic() + options.retry_timeout
    backoff = Backoff(PAUSE_FIRST_S, PAUSE_MAX_S)
    while True:
        try:
            with Cluster(options) as cluster:
                try:
                    return ask(cluster)
                except NoRouteError:
                    if cluster.has_brokers():
                        raise
                    raise UnreachableError(
                        f"no broker is registered at NameServer {', '.join(options.namesrv)}"
                    ) from None
        except (UnreachableError, ClientTimeout) as error:
            if time.monotonic() + backoff.pause_s > deadline:
                raise
            _log.warning("trying again in %g s: %s", backoff.pause_s, error)
        time.sleep(backoff.pause_s)
        backoff.grow()


def topics_of(cluster: Cluster, options: Options) -> list[str]:
    """The topics to read: the named ones, or the NameServer's topics that match the pattern."""
    pattern = options.topic_pattern
    if pattern is None:
        return list(options.topics)
    of_groups = pattern.pattern.startswith("%")
    return [
        name
        for name in cluster.topic_names()
        if name.startswith("%") == of_groups and pattern.fullmatch(name)
    ]


def queues_of(cluster: Cluster, options: Options) -> list[MessageQueue]:
    """Every queue to read; NoRouteError for a topic that does not exist."""
    return [queue for topic in topics_of(cluster, options) for queue in cluster.queues(topic)]


def reached(extents: Mapping[MessageQueue, Extent | None]) -> dict[MessageQueue, Extent]:
    """Demand that every queue's broker answered: a batch must not miss queues silently."""
    missing = sorted(str(queue) for queue, extent in extents.items() if extent is None)
    if missing:
        raise UnreachableError(
            f"no answer from the broker of {len(missing)} queues, first {missing[0]}; is the "
            f"advertised address reachable from here? (see the option addressMap)"
        )
    return {queue: extent for queue, extent in extents.items() if extent is not None}


def resolve(
    position: Position,
    cluster: Cluster,
    extents: Mapping[MessageQueue, Extent],
    options: Options,
    *,
    default: str,
    unnamed: str = EARLIEST,
) -> dict[MessageQueue, int]:
    """A starting or ending position as one offset per queue, within the queue's extent.

    default: earliest or latest, used without a position. unnamed: the same for queues that a
    position leaves out.
    """
    word = default if position is None else unnamed
    found: Mapping[MessageQueue, int | None] = {}
    if isinstance(position, int):
        found = cluster.offsets_at(extents, position)
        reached({queue: None if at is None else extents[queue] for queue, at in found.items()})
    elif isinstance(position, dict):
        found = _named(position, extents, options)
    elif isinstance(position, GroupStart):
        found = cluster.committed(position.group, extents)
        _check_readable(found, extents, options)
    elif position is not None:
        word = position
    offsets = {}
    for queue, extent in extents.items():
        at = found.get(queue)
        if at is None:
            at = extent.end if word == LATEST else extent.first
        offsets[queue] = min(max(at, extent.first), extent.end)
    return offsets


def _named(
    offsets: Mapping[str, int], extents: Mapping[MessageQueue, Extent], options: Options
) -> dict[MessageQueue, int | None]:
    named: dict[MessageQueue, int | None] = {queue_of(key): at for key, at in offsets.items()}
    unknown = sorted(str(queue) for queue in named if queue not in extents)
    if unknown:
        raise ValueError(f"offsets name queues that do not exist: {', '.join(unknown)}")
    _check_readable(named, extents, options)
    return named


def _check_readable(
    offsets: Mapping[MessageQueue, int | None],
    extents: Mapping[MessageQueue, Extent],
    options: Options,
) -> None:
    """An offset outside a queue's extent is an error, or a warning if loss is allowed."""
    for queue, at in offsets.items():
        extent = extents[queue]
        if at is None or extent.first <= at <= extent.end:
            continue
        problem = (
            f"topic {queue.topic}, broker {queue.broker_name}, queue {queue.queue_id}: offset "
            f"{at} cannot be read, only {extent.first} to {extent.end}"
        )
        if options.fail_on_data_loss:
            raise DataLossError(
                f"{problem}; give an offset of that range, or set failOnDataLoss to false to "
                f"read what is left"
            )
        nearest = min(max(at, extent.first), extent.end)
        _log.warning("%s; the read uses offset %d", problem, nearest)


def check_filter(cluster: Cluster, options: Options, queues: Iterable[MessageQueue]) -> None:
    """Ask every broker whether it can apply the option `filter`, before a task needs it.

    RocketMQ gives every message to a pull whose expression it cannot compile.
    """
    if options.filter is None:
        return
    for queue in {queue.broker_name: queue for queue in queues}.values():
        try:
            cluster.check_filter(queue, options.filter)
        except (UnreachableError, ClientTimeout):
            continue  # the caller sees that this broker is away
        except RocketMQError as error:
            raise ValueError(
                f"option filter = {options.filter!r}: broker {queue.broker_name} refuses it: "
                f"{error}; a broker applies such filters with enablePropertyFilter=true"
            ) from None


def fewer_queues(
    cluster: Cluster, done: Mapping[str, int], queues: Iterable[MessageQueue], options: Options
) -> str:
    """Say which messages are not read because topics have fewer readable queues than before.

    done: the offsets reached so far. queues: the readable ones. Empty if every
    hidden queue was read to its end. An unreachable broker hides no queue.
    """
    now = set(queues)
    sources = {(queue.topic, queue.broker_name) for queue in now}
    wanted = options.queues
    hidden = [
        queue
        for queue in map(queue_of, done)
        if queue not in now
        and (queue.topic, queue.broker_name) in sources
        and (wanted is None or queue.queue_id in wanted)
    ]
    if not hidden:
        return ""
    unread = {
        queue: extent.end - done[offset_key(queue)]
        for queue, extent in cluster.extents(hidden).items()
        if extent is not None and extent.end > done[offset_key(queue)]
    }
    if not unread:
        return ""
    first = min(unread)
    count = max(queue.queue_id for queue in unread if queue.topic == first.topic) + 1
    named = ", ".join(f"{offset_key(queue)} ({unread[queue]} messages)" for queue in sorted(unread))
    return (
        f"topic {first.topic} has fewer readable queues than before, and messages are left in "
        f"{named}; give the queues back: mqadmin updateTopic -t {first.topic} -r {count} "
        f"-w {count} -c CLUSTER"
    )

"""Finds the queues and offsets to read from topics, before Spark starts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mqclient.errors import UnreachableError
from mqcommon.message import MessageQueue
from mqpipeline.errors import UsageError
from mqpipeline.spark.topics.cluster import Cluster, DataLossError, Extent
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.plan import offset_key, queue_of
from mqpipeline.spark.topics.survey import fewer_queues

__all__ = ["Backlog", "Moment", "Piece", "look", "parse_options", "source_options"]

Moment = Literal["earliest", "latest"] | int
"""A start or an end: the first or last offset of a queue, or a time in ms since the epoch."""

_OF_THE_JOB = (
    *("topic", "topics", "topicPattern", "queues", "startingOffsets", "startingTimestamp"),
    *("endingOffsets", "endingTimestamp", "namesrv"),
)
"""Options of the source that a job sets itself."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Offsets [first, end) of a queue."""

    queue: MessageQueue
    first: int
    end: int

    @property
    def key(self) -> str:
        """The queue as "broker|topic|queue", the key of offsets."""
        return offset_key(self.queue)

    @property
    def rows(self) -> int:
        """Number of offsets in the piece."""
        return self.end - self.first


@dataclass(frozen=True, slots=True)
class Backlog:
    """The offsets to read, for all queues of some topics, including queues with nothing new."""

    pieces: list[Piece]
    lost: list[Piece]
    """Offsets that the brokers deleted before they were read."""

    @property
    def rows(self) -> int:
        """Number of offsets to read."""
        return sum(piece.rows for piece in self.pieces)

    def rounds(self, rows_max: int) -> Iterator[list[Piece]]:
        """Split the pieces into rounds of at most `rows_max` offsets per queue."""
        left = self.pieces
        while any(piece.rows for piece in left):
            yield [
                Piece(piece.queue, piece.first, min(piece.first + rows_max, piece.end))
                for piece in left
            ]
            left = [
                Piece(piece.queue, min(piece.first + rows_max, piece.end), piece.end)
                for piece in left
            ]


def parse_options(namesrv: str | None, given: Mapping[str, str]) -> Options:
    """Parse and check the source's options. Raises UsageError."""
    for name in given:
        if name.lower() in {word.lower() for word in _OF_THE_JOB}:
            raise UsageError(f"--option {name}: the job sets this itself, see its other options")
    try:
        return Options.parse(_lower(given) | ({"namesrv": namesrv} if namesrv else {}))
    except ValueError as error:
        raise UsageError(str(error)) from None


def _lower(given: Mapping[str, str]) -> _AnyCase:
    return _AnyCase({name.lower(): value for name, value in given.items()})


class _AnyCase(dict[str, str]):
    """A dictionary whose names are not case-sensitive, as in Spark."""

    def __getitem__(self, name: str) -> str:
        return super().__getitem__(name.lower())

    def get(self, name: str, default: str | None = None) -> str | None:  # type: ignore[override]
        return super().get(name.lower(), default)

    def __or__(self, other: Mapping[str, str]) -> _AnyCase:  # type: ignore[override]
        return _AnyCase(dict(self) | dict(other))


def look(
    options: Options,
    topics: Sequence[str],
    done: Mapping[str, int],
    start: Moment = "earliest",
    end: Moment = "latest",
) -> Backlog:
    """Ask the brokers for the offsets that are new since `done`.

    start: where to start queues that are not in `done`. Raises mqclient's errors for a topic that
    does not exist, a broker that does not answer, and deleted offsets.
    """
    with Cluster(options) as cluster:
        queues = [queue for topic in dict.fromkeys(topics) for queue in cluster.queues(topic)]
        extents = _all_reachable(cluster.extents(queues))
        of_topics = {key: at for key, at in done.items() if queue_of(key).topic in topics}
        fewer = fewer_queues(cluster, of_topics, queues, options)
        if fewer and options.fail_on_data_loss:
            raise DataLossError(
                f"the last run read queues that are missing now: {fewer}; to continue without "
                f"them: --option failOnDataLoss=false"
            )
        fresh = {q: extent for q, extent in extents.items() if offset_key(q) not in done}
        first = _offsets(cluster, fresh, start)
        last = _offsets(cluster, extents, end)
    pieces, lost = [], []
    for queue, extent in sorted(extents.items()):
        begin = done.get(offset_key(queue), first.get(queue, 0))
        if begin > extent.end:
            raise DataLossError(
                f"{queue} ends at {extent.end}, but was read up to {begin} before: the queue was "
                f"created again; read it into another lake, with another --name"
            )
        if begin < extent.first:
            lost.append(Piece(queue, begin, extent.first))
            begin = extent.first
        pieces.append(Piece(queue, begin, max(begin, last[queue])))
    if lost and options.fail_on_data_loss:
        gone = lost[0]
        raise DataLossError(
            f"{gone.queue}: the broker deleted offsets {gone.first} to {gone.end - 1} before they "
            f"were read; to continue at {gone.end}: --option failOnDataLoss=false"
        )
    return Backlog(pieces, lost)


def _all_reachable(extents: Mapping[MessageQueue, Extent | None]) -> dict[MessageQueue, Extent]:
    away = sorted({queue.broker_name for queue, extent in extents.items() if extent is None})
    if away:
        raise UnreachableError(
            f"broker {', '.join(away)} does not answer at the address that it registered with the "
            f"NameServer (--option addressMap=FROM=TO replaces it)"
        )
    return {queue: extent for queue, extent in extents.items() if extent is not None}


def _offsets(
    cluster: Cluster, extents: Mapping[MessageQueue, Extent], moment: Moment
) -> dict[MessageQueue, int]:
    """The offset of a moment in each queue."""
    if moment == "earliest":
        return {queue: extent.first for queue, extent in extents.items()}
    if moment == "latest":
        return {queue: extent.end for queue, extent in extents.items()}
    found = cluster.offsets_at(extents, moment)
    known = {queue: at for queue, at in found.items() if at is not None}
    if len(known) < len(extents):
        raise UnreachableError("a broker stopped answering while the job searched by time")
    return known


def source_options(
    namesrv: str | None, given: Mapping[str, str], pieces: Sequence[Piece]
) -> dict[str, str]:
    """Options of format("rocketmq") to read exactly these pieces."""
    import json

    return {
        **given,
        **({"namesrv": namesrv} if namesrv else {}),
        "topic": ",".join(dict.fromkeys(piece.queue.topic for piece in pieces)),
        "startingOffsets": json.dumps({piece.key: piece.first for piece in pieces}),
        "endingOffsets": json.dumps({piece.key: piece.end for piece in pieces}),
    }

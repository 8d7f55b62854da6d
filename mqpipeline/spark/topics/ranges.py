"""Ranges of queues through the compiled range reader: its plans, its losses, its errors."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from socket import gethostname
from typing import Any

from mqclient.engine.ranges import RangeFailed, RangeReader, failure_of, plan_of
from mqcommon.message import MessageQueue
from mqpipeline.spark.topics.cluster import Cluster, DataLossError
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.plan import QueueRange
from mqpipeline.spark.topics.survey import patiently
from mqstore.arrow import BatchBuilder

__all__ = ["Ranges"]

_log = logging.getLogger(__name__)

WAITING_BYTES = 16 << 20
"""Replies that a task keeps until their rows are taken. A reply of one larger message may exceed
it."""


class Ranges:
    """Reads ranges of queues into batches, one range after another. Use it in one thread, close it.

    Pulls of several ranges are in flight together. A slave is asked while the master fails.
    Raises DataLossError when messages of a range are gone or damaged and the options say that this
    is an error; otherwise one warning per range says how many were left out.
    """

    def __init__(self, ranges: Sequence[QueueRange], options: Options) -> None:
        self._options = options
        self._queues = [piece.queue for piece in reversed(ranges)]
        self._losses: list[tuple[int, int, str]] = []
        self._advertised: dict[str, str] = {}
        queues = {piece.queue for piece in ranges}

        def look(cluster: Cluster) -> dict[MessageQueue, tuple[str | None, str | None]]:
            self._explain = cluster.explain
            return {queue: cluster.addresses(queue) for queue in sorted(queues)}

        self._addresses = patiently(options, look)
        plans: list[Mapping[str, Any]] = [self._plan(piece) for piece in ranges]
        self._reader = RangeReader(options.client_settings().transport_arguments(), plans)

    def fill(self, builder: BatchBuilder) -> bool:
        """Add rows of the range that is being read; returns whether the range has ended.

        Returns when the builder is full or the range has ended; the next range follows.
        """
        try:
            is_end, losses = builder.fill(self._reader.fill)
        except RangeFailed as failed:
            error = failure_of(failed, self._explain, self._advertised)
            error.add_note(f"asked from host {gethostname()}")
            raise error from None
        self._take(losses)
        if is_end:
            self._warn()
            self._queues.pop()
        return is_end

    def close(self) -> None:
        """Close the connections; the losses of a range that was not read to its end are logged."""
        self._warn()
        self._reader.close()

    def _plan(self, piece: QueueRange) -> dict[str, Any]:
        options = self._options
        master, slave = self._addresses[piece.queue]
        return plan_of(
            piece.queue,
            piece.first,
            piece.end,
            master=master and self._mapped(master),
            slave=slave and self._mapped(slave),
            group=options.group,
            tags=None if options.tags is None else sorted(options.tags),
            filter=options.filter,
            waiting_bytes=WAITING_BYTES,
            timeout=options.timeout,
            retry_timeout=options.retry_timeout,
        )

    def _mapped(self, advertised: str) -> str:
        address = self._options.address_map.get(advertised, advertised)
        self._advertised[address] = advertised
        return address

    def _take(self, losses: list[tuple[int, int, str]]) -> None:
        if losses and self._options.fail_on_data_loss:
            raise DataLossError(
                f"{self._queue}: {losses[0][2]}; set failOnDataLoss to false to read what is left"
            )
        self._losses += losses

    def _warn(self) -> None:
        if self._losses:
            offset, _, reason = self._losses[0]
            count = sum(count for _, count, _ in self._losses)
            _log.warning(
                "%s: %d messages were left out, first at offset %d: %s",
                self._queue, count, offset, reason,
            )  # fmt: skip
        self._losses = []

    @property
    def _queue(self) -> MessageQueue:
        return self._queues[-1]

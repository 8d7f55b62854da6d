"""How large the messages of a topic are, for a limit of bytes: an estimate from a few of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from mqclient.errors import RocketMQError
from mqcommon.message import MessageQueue
from mqpipeline.spark.topics.cluster import Cluster
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.plan import queue_of

__all__ = ["RowSizes"]

_log = logging.getLogger(__name__)

UNKNOWN_BYTES = 1024
"""The size of a message of a topic without a sample yet."""


class RowSizes:
    """Bytes of a stored message by topic, from the messages that a query reads next."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._sizes: dict[str, int] = {}

    def of(self, begin: Mapping[str, int], end: Mapping[str, int]) -> Callable[[str], int]:
        """Sample the queue of each topic that has the most to read; returns size by queue key.

        Without an answer the last size stays in use.
        """
        longest: dict[str, str] = {}
        for key in sorted(end):
            topic, rows = queue_of(key).topic, end[key] - begin[key]
            if rows > 0 and (topic not in longest or rows > _rows(longest[topic], begin, end)):
                longest[topic] = key
        if longest:
            with Cluster(self._options) as cluster:
                for topic, key in longest.items():
                    self._measure(cluster, topic, queue_of(key), begin[key])
        return lambda key: self._sizes.get(queue_of(key).topic, UNKNOWN_BYTES)

    def _measure(self, cluster: Cluster, topic: str, queue: MessageQueue, first: int) -> None:
        try:
            size, rows = cluster.sample(queue, first)
        except RocketMQError as error:
            _log.warning("topic %s: no sample of message sizes: %s", topic, error)
            return
        if size and rows:
            self._sizes[topic] = max(size // rows, 1)


def _rows(key: str, begin: Mapping[str, int], end: Mapping[str, int]) -> int:
    return end[key] - begin[key]

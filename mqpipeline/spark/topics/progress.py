"""The progress of a streaming query as a consumer group's: for tools that show lag."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from mqclient.errors import BrokerError, RocketMQError
from mqcommon.message import MessageQueue
from mqpipeline.spark.topics.cluster import Cluster
from mqpipeline.spark.topics.options import Options
from mqpipeline.spark.topics.plan import queue_of

__all__ = ["GroupInUseError", "GroupProgress"]

_log = logging.getLogger(__name__)


class GroupInUseError(RocketMQError):
    """The group has live consumers, whose offsets a query must not move."""


class GroupProgress:
    """Commits offsets to the option `group`."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._committed: dict[str, int] = {}
        self._has_topic = False

    def refuse_members(self, cluster: Cluster, queues: Iterable[MessageQueue]) -> None:
        """Raise GroupInUseError if a consumer of the group is connected to one of the brokers."""
        group = self._options.group
        members = cluster.members(group, queues)
        if members:
            raise GroupInUseError(
                f"option commitGroup: group {group!r} has {len(members)} live consumers, first "
                f"{members[0]}, and the query would move their offsets; stop them, or give the "
                f"query a group of its own"
            )

    def commit(self, end: Mapping[str, int]) -> None:
        """Commit the offsets that changed. An unreachable broker gets them with the next commit.

        Raises GroupInUseError.
        """
        changed = {queue_of(key): at for key, at in end.items() if self._committed.get(key) != at}
        if not changed:
            return
        try:
            with Cluster(self._options) as cluster:
                self.refuse_members(cluster, changed)
                self._make_topic(cluster, changed)
                away = cluster.commit(self._options.group, changed)
        except GroupInUseError:
            raise
        except RocketMQError as error:
            _log.warning("group %s: no offset was committed: %s", self._options.group, error)
            return
        if away:
            _log.warning(
                "group %s: the offsets of %d queues were not committed, first %s: the broker is "
                "away", self._options.group, len(away), away[0],
            )  # fmt: skip
        missed = set(away)
        self._committed |= {key: at for key, at in end.items() if queue_of(key) not in missed}

    def _make_topic(self, cluster: Cluster, queues: Iterable[MessageQueue]) -> None:
        """Try until a broker answers; a refusal is logged once."""
        if self._has_topic:
            return
        try:
            cluster.make_retry_topic(self._options.group, queues)
        except BrokerError as error:
            _log.warning(
                "group %s: its retry topic cannot be made, so that tools may not find the group: "
                "%s", self._options.group, error,
            )  # fmt: skip
        self._has_topic = True

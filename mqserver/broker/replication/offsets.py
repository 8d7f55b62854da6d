"""Committed offsets between a master and its slaves: they go forward, unless an operator reset
them.

RocketMQ's slave takes its master's offsets as they are, and its master takes none from a slave. So
offsets that consumers committed to a slave while the master was away are lost when it returns.
"""

from __future__ import annotations

from collections.abc import Mapping

from mqserver.broker.context import StoreDoor

Table = Mapping[str, Mapping[int, int]]
"""Offset by "topic@group" and queue."""


class MasterOffsets:
    """Takes over the offsets of a master."""

    def __init__(self, store: StoreDoor) -> None:
        self._store = store
        self._said: Table = {}
        self._life = ""

    def take(self, table: Table, life: str) -> None:
        """Commit the master's offsets that are ahead of ours, and those that the master reset.

        life: differs after a restart of the master. A master that goes back within one life was
        told to; one that goes back with a restart lost its latest commits.
        """
        said = self._said if life and life == self._life else {}
        own = self._store.committed_all()
        for key, queues in table.items():
            topic, _, group = key.partition("@")
            before, ours = said.get(key, {}), own.get(key, {})
            for queue_id, offset in queues.items():
                was_reset = offset < before.get(queue_id, offset)
                if was_reset or offset > ours.get(queue_id, -1):
                    self._store.commit(group, topic, queue_id, offset)
        self._said, self._life = table, life


def take_newer(store: StoreDoor, table: Table) -> int:
    """Commit the offsets of a slave that are ahead of this master's; returns their number.

    An offset beyond the end of this master's queue is not taken: the slave has messages that this
    master has lost.
    """
    own, taken = store.committed_all(), 0
    for key, queues in table.items():
        topic, _, group = key.partition("@")
        ours = own.get(key, {})
        for queue_id, offset in queues.items():
            if ours.get(queue_id, -1) < offset <= store.max_offset(topic, queue_id):
                store.commit(group, topic, queue_id, offset)
                taken += 1
    return taken

"""Which member of a group reads which queue. Pure: no IO.

All members must use the same strategy, see the same members and the same queues; each computes
its own share. Rules: RocketMQ 4.9 `AllocateMessageQueueAveragely` and its siblings.
"""

import hashlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence

from mqclient.engine.callables import check_takes
from mqcommon.message import MessageQueue
from mqcommon.names import RETRY_PREFIX

__all__ = ["STRATEGIES", "Allocation", "Strategy", "allocate", "strategy_of"]

Strategy = Callable[[str, list[MessageQueue], list[str]], Iterable[MessageQueue]]
"""Gives a member's queues, by its client id, all queues of a topic, and the ids of all members;
both lists are sorted."""
Allocation = str | Strategy | Sequence[MessageQueue]
"""The name of a strategy, a custom function, or the queues to read."""
VIRTUAL_NODES = 10
"""Places of a member on the ring of CONSISTENT_HASH."""


def averagely(client_id: str, queues: list[MessageQueue], members: list[str]) -> list[MessageQueue]:
    """AVG: contiguous shares, the first n mod c members get one queue more."""
    index = members.index(client_id)
    share, rest = divmod(len(queues), len(members))
    start = index * share + min(index, rest)
    return queues[start : start + share + (index < rest)]


def by_circle(client_id: str, queues: list[MessageQueue], members: list[str]) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: queue k goes to member k mod c."""
    return queues[members.index(client_id) :: len(members)]


def consistent_hash(
    client_id: str, queues: list[MessageQueue], members: list[str]
) -> list[MessageQueue]:
    """CONSISTENT_HASH: few queues move when a member comes or goes.

    Each member has 10 places on a ring, each queue goes to the next place
    (`AllocateMessageQueueConsistentHash`).
    """
    ring = {
        _ring_place(f"{member}-{number}"): member
        for member in members
        for number in range(VIRTUAL_NODES)
    }
    places = sorted(ring)
    return [
        queue
        for queue in queues
        if ring[places[bisect_left(places, _ring_place(str(queue))) % len(places)]] == client_id
    ]


def _ring_place(text: str) -> int:
    digest = hashlib.md5(text.encode(), usedforsecurity=False).digest()
    return int.from_bytes(digest[:4])


class ByConfig:
    """Fixed queues, whatever the other members read.

    Rules: `AllocateMessageQueueByConfig`. Unlike there, the queues of the group's retry topic
    are shared evenly unless they are among the fixed ones, so that failed messages come again.
    """

    def __init__(self, queues: Iterable[MessageQueue]) -> None:
        self._queues = frozenset(queues)
        for queue in self._queues:
            if not isinstance(queue, MessageQueue):
                raise TypeError(f"allocate holds {queue!r}; give MessageQueue objects")
        if not self._queues:
            raise ValueError("allocate names no queue; give at least one")

    def __call__(
        self, client_id: str, queues: list[MessageQueue], members: list[str]
    ) -> list[MessageQueue]:
        """The fixed queues among the queues of one topic."""
        fixed = [queue for queue in queues if queue in self._queues]
        if not fixed and queues[0].topic.startswith(RETRY_PREFIX):
            return averagely(client_id, queues, members)
        return fixed


STRATEGIES: dict[str, Strategy] = {
    "AVG": averagely,
    "AVG_BY_CIRCLE": by_circle,
    "CONSISTENT_HASH": consistent_hash,
}
"""Strategies by RocketMQ's names."""


def strategy_of(allocation: Allocation) -> Strategy:
    """Find a strategy. Raises ValueError for an unknown name, TypeError."""
    if isinstance(allocation, str):
        strategy = STRATEGIES.get(allocation)
        if strategy is None:
            known = ", ".join(STRATEGIES)
            raise ValueError(
                f"allocate {allocation!r} is no strategy; use {known}, a list of queues, or a "
                "function (client_id, queues, client_ids)"
            )
        return strategy
    if callable(allocation):
        check_takes("allocate", allocation, "client_id", "queues", "client_ids")
        return allocation
    if isinstance(allocation, Iterable):
        return ByConfig(allocation)
    raise TypeError(
        "allocate must be a strategy's name, a list of queues or a function, "
        f"not {type(allocation).__name__}"
    )


def allocate(
    strategy: Strategy, client_id: str, queues: Iterable[MessageQueue], client_ids: Iterable[str]
) -> list[MessageQueue] | None:
    """This member's queues, queues and members sorted as RocketMQ sorts them.

    Returns None if the member is not in the list (its heartbeat has not arrived yet). Raises
    ValueError if the strategy fails, or if it gives something else than queues of the list.
    """
    members = sorted(client_ids)
    if client_id not in members:
        return None
    every = sorted(queues)
    try:
        share = list(strategy(client_id, list(every), members))
    except Exception as error:
        raise ValueError(f"the allocation strategy failed: {error!r}") from error
    known = set(every)
    strange = [queue for queue in share if queue not in known]
    if strange:
        raise ValueError(f"the allocation strategy gave {strange[0]!r}, which is not of {every}")
    return sorted(set(share))

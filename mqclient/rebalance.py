"""Which member of a group reads which queue. Pure: no IO.

All members must use the same strategy, see the same members and the same queues; each computes
its own share. Rules: RocketMQ 4.9 `AllocateMessageQueueAveragely` and its siblings.
"""

from collections.abc import Callable, Iterable, Sequence

from mqstore.message import MessageQueue

__all__ = ["STRATEGIES", "allocate"]

Strategy = Callable[[int, Sequence[MessageQueue], int], list[MessageQueue]]


def averagely(index: int, queues: Sequence[MessageQueue], members: int) -> list[MessageQueue]:
    """AVG: contiguous shares, the first n mod c members get one queue more."""
    share, rest = divmod(len(queues), members)
    start = index * share + min(index, rest)
    return list(queues[start : start + share + (index < rest)])


def by_circle(index: int, queues: Sequence[MessageQueue], members: int) -> list[MessageQueue]:
    """AVG_BY_CIRCLE: queue k goes to member k mod c."""
    return list(queues[index::members])


STRATEGIES: dict[str, Strategy] = {"AVG": averagely, "AVG_BY_CIRCLE": by_circle}
"""Strategies by RocketMQ's names."""


def strategy_of(name: str) -> Strategy:
    """Find a strategy; raises ValueError naming the known ones."""
    strategy = STRATEGIES.get(name)
    if strategy is None:
        raise ValueError(f"allocate {name!r} is not built; use one of {', '.join(STRATEGIES)}")
    return strategy


def allocate(
    strategy: Strategy, client_id: str, queues: Iterable[MessageQueue], client_ids: Iterable[str]
) -> list[MessageQueue] | None:
    """This member's queues, queues and members sorted as RocketMQ sorts them.

    Returns None if the member is not in the list (its heartbeat has not arrived yet).
    """
    members = sorted(client_ids)
    if client_id not in members:
        return None
    return strategy(members.index(client_id), sorted(queues), len(members))

"""The order in which Java's other maps list their keys; `java_text.hash_order` is for a HashMap of
strings.

RocketMQ prints these maps as they are, so its text has their order.
"""

from __future__ import annotations

from collections.abc import Iterable

from mqadmin.java_text import bucket_order, spread
from mqcommon.message import MessageQueue
from mqcommon.names import java_hash, joined_hash

_CAPACITY = 16
_LOAD = 0.75

_Node = tuple[int, str]


def properties_order(keys: Iterable[str]) -> list[str]:
    """Strings in the order of a Properties or a ConcurrentHashMap that was filled with them."""
    table: list[list[_Node]] = [[] for _ in range(_CAPACITY)]
    for count, key in enumerate(dict.fromkeys(keys), start=1):
        code = spread(java_hash(key))
        table[code & (len(table) - 1)].append((code, key))
        if count >= len(table) * _LOAD:
            table = _transferred(table)
    return [key for chain in table for _, key in chain]


def _transferred(table: list[list[_Node]]) -> list[list[_Node]]:
    """A table of twice the size. As in `ConcurrentHashMap.transfer`, the last nodes of a chain that
    go to the same half keep their order; each earlier node goes to the front of its half."""
    size = len(table)
    larger: list[list[_Node]] = [[] for _ in range(2 * size)]
    for place, chain in enumerate(table):
        last_run = len(chain)
        while last_run > 0 and (
            last_run == len(chain) or (chain[last_run - 1][0] & size) == (chain[last_run][0] & size)
        ):
            last_run -= 1
        for node in chain[last_run:]:
            larger[place + (node[0] & size)].append(node)
        for node in chain[:last_run]:
            larger[place + (node[0] & size)].insert(0, node)
    return larger


def queue_order(queues: Iterable[MessageQueue]) -> list[MessageQueue]:
    """Queues in the order in which a HashMap with these keys would list them."""
    return bucket_order(queues, _queue_hash)


def _queue_hash(queue: MessageQueue) -> int:
    return joined_hash([java_hash(queue.broker_name), queue.queue_id, java_hash(queue.topic)])

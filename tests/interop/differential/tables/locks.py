"""Broker: queue locks (41, 42)."""

from __future__ import annotations

from dataclasses import replace

from tests.interop.differential.case import Case, body_of, with_bad_bodies


def body(client: str | None, *queues: int, group: str | None = "lock_group") -> bytes:
    """Lock- or UnlockBatchRequestBody."""
    mq_set = [{"topic": "LockTopic", "brokerName": "broker-a", "queueId": q} for q in queues]
    return body_of({"clientId": client, "consumerGroup": group, "mqSet": mq_set})


def lock(name: str, client: str | None, *queues: int, group: str | None = "lock_group") -> Case:
    return Case(name, 41, None, body(client, *queues, group=group))


def unlock(name: str, client: str | None, *queues: int, group: str | None = "lock_group") -> Case:
    return Case(name, 42, None, body(client, *queues, group=group))


CASES = [
    lock("lock", "c1", 0, 1),
    lock("lock again", "c1", 0, 1),
    lock("lock by another", "c2", 0, 1, 2),
    unlock("unlock by another", "c2", 0),
    lock("still locked", "c2", 0),
    unlock("unlock", "c1", 0),
    lock("free again", "c2", 0),
    lock("another group", "c3", 0, 1, 2, group="lock_other"),
    lock("no queues", "c1"),
    lock("queue -1", "c1", -1),
    lock("many", "c1", *range(100, 200)),
    lock("empty client", "", 5),
    lock("no client", None, 6),
    lock("empty group", "c1", 7, group=""),
    lock("no group", "c1", 8, group=None),
    unlock("unlock unknown", "c1", 77),
    unlock("unlock in unknown group", "c1", 0, group="lock_nobody"),
    unlock("unlock of no client", None, 0),
    unlock("unlock in no group", "c1", 0, group=None),
    *with_bad_bodies(Case("bad lock", 41)),
    *with_bad_bodies(Case("bad unlock", 42)),
    replace(lock("lock; binary header", "c1", 9), serialize=1),
    replace(lock("lock; fields", "c1", 10), fields={"x": "1"}),
    replace(lock("lock at the VIP port", "c1", 11), server="vip"),
    # A lock ends after a minute: none is left that another client asks for the next time.
    unlock("unlock the first's", "c1", 0, 1, 2),
    unlock("unlock the second's", "c2", 0, 1, 2),
]

"""Committed offsets between a master and a slave go forward, unless they were reset."""

from __future__ import annotations

import pytest

from mqserver.broker.replication.offsets import MasterOffsets, take_newer


class Offsets:
    """The committed offsets of a store, whose queues all end at `end`."""

    def __init__(self, end: int = 100, **committed: int) -> None:
        self._end = end
        self.table = {f"{topic}@G": {0: offset} for topic, offset in committed.items()}
        self.deletions: list[str] = []

    def take_deletions(self, of_master: str) -> None:
        self.deletions.append(of_master)

    def committed_all(self) -> dict[str, dict[int, int]]:
        return {key: dict(queues) for key, queues in self.table.items()}

    def commit(self, group: str, topic: str, queue_id: int, offset: int) -> bool:
        self.table.setdefault(f"{topic}@{group}", {})[queue_id] = offset
        return True

    def max_offset(self, topic: str, queue_id: int) -> int:
        return self._end


@pytest.mark.parametrize(
    ("own", "said", "kept"),
    [
        pytest.param({}, [("1", 5)], 5, id="new"),
        pytest.param({"T": 3}, [("1", 5)], 5, id="ahead"),
        pytest.param({"T": 9}, [("1", 5)], 9, id="behind"),
        pytest.param({"T": 3}, [("1", 5), ("1", 2)], 2, id="reset"),
        pytest.param({"T": 3}, [("1", 5), ("2", 2)], 5, id="lost by a restart"),
        pytest.param({"T": 3}, [("1", 5), ("2", 2), ("2", 1)], 1, id="reset after a restart"),
        pytest.param({"T": 3}, [("", 5), ("", 2)], 5, id="a master that tells no life"),
    ],
)
def test_a_slave_takes_a_masters_offsets(
    own: dict[str, int], said: list[tuple[str, int]], kept: int
) -> None:
    store = Offsets(**own)
    offsets = MasterOffsets(store)
    for life, offset in said:
        offsets.take({"T@G": {0: offset}}, life)
    assert store.table == {"T@G": {0: kept}}


@pytest.mark.parametrize(
    ("own", "of_slave", "kept", "count"),
    [(3, 7, 7, 1), (7, 3, 7, 0), (3, 101, 3, 0), (3, 100, 100, 1)],
    ids=["newer", "older", "beyond the queue's end", "at the end"],
)
def test_a_master_takes_newer_offsets(own: int, of_slave: int, kept: int, count: int) -> None:
    store = Offsets(T=own)
    assert take_newer(store, {"T@G": {0: of_slave}}) == count
    assert store.table == {"T@G": {0: kept}}

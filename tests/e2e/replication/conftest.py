"""A pair of processes for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.replication.pair import Pair

QUEUES = 4


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    """A SYNC_MASTER and a slave that follows it through a proxy."""
    made = Pair(tmp_path, QUEUES)
    try:
        made.await_ready()
        yield made
    finally:
        made.stop()

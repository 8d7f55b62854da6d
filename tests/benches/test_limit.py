"""The server that answers and stores nothing: who measures against it gets answers."""

from pathlib import Path

import pytest

from benches.cases.versus_java.limit import Limit, missing
from benches.lib.loads import Case, measure

pytestmark = pytest.mark.skipif(missing() is not None, reason=str(missing()))


def test_sends_and_batches_are_answered_and_not_stored(tmp_path: Path) -> None:
    with Limit(tmp_path / "limit", {}) as limit:
        stored = limit.store_bytes()
        for case in (
            Case("json", 2, produce={"in_flight": 8}),
            Case("rocketmq", produce={"in_flight": 8}, headers="rocketmq"),
            Case("batch", produce={"batch": 4}),
        ):
            figures = measure(case, limit, 0.1)
            assert figures["messages_per_s"] > 0 and not figures["refused"], case
        assert limit.store_bytes() == stored


def test_writes_what_it_reads_for_sync_flush(tmp_path: Path) -> None:
    body = b"x" * 1024
    with Limit(tmp_path / "limit", {"flushDiskType": "SYNC_FLUSH"}) as limit:
        figures = measure(Case("one", produce={"body_bytes": 1024}), limit, 0.1)
        assert figures["messages_per_s"] > 0
        assert body in (tmp_path / "limit" / "log").read_bytes()

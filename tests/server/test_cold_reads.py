"""A pull of what is not in memory goes to the threads that may wait for the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mqstore import decode_messages

BODY = os.urandom(300_000)


def forget_pages(directory: Path) -> None:
    """Have the kernel drop the clean pages of all files."""
    for path in directory.iterdir():
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def test_cold_pulls_are_answered_by_the_pool(broker, tmp_path):
    for _ in range(8):  # three fill a file
        broker.send(BODY, e="0")
    broker.wait_readable(8)
    broker.store.flush()
    forget_pages(tmp_path / "store" / "commitlog")
    before = broker.listener.counters()["cold_reads"]
    reply = broker.pull(0, maxMsgNums="1")
    (message,) = decode_messages(reply.body)
    assert (reply.code, message.body, message.queue_offset) == (0, BODY, 0)
    cold = broker.listener.counters()["cold_reads"] - before
    if cold == 0:
        pytest.skip("this file system keeps its files in memory")
    # Once read they are in memory: the next pull does without the pool.
    assert broker.pull(0, maxMsgNums="1").code == 0
    assert broker.listener.counters()["cold_reads"] - before == cold == 1


def test_a_reset_group_is_told_where_to_go_on(broker):
    for _ in range(3):
        broker.send(b"x", e="0")
    broker.wait_readable(3)
    broker.store.reset_offset("g", "T", 0, 1)
    moved = broker.pull(3)
    assert (moved.code, moved.remark) == (21, "OFFSET_RESET")
    assert moved.fields["nextBeginOffset"] == "1"
    assert decode_messages(broker.pull(1).body)[0].queue_offset == 1

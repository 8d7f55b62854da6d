"""A master's HA port and slaves that follow it, as Python starts them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from mqcommon._core import HaMaster, HaSlave
from mqstore import Settings, Store, StoreError
from tests.waiting import answer_of, until

SMALL = {"commit_log_file_bytes": 1 << 16, "index_slots": 100, "index_entries": 400}


def opened(root: Path, role: str) -> Store:
    return Store(root, Settings(role=role, min_free_bytes=0, **SMALL), create=True)


def put(store: Store, count: int = 1, body: bytes = b"x" * 500) -> list[str]:
    return [store.put("T", body).status for _ in range(count)]


def log_bytes(root: Path, end: int) -> bytes:
    files = sorted((root / "commitlog").iterdir())
    return b"".join(file.read_bytes() for file in files)[: end - int(files[0].name)]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


def serve(stack: ExitStack, store: Store, **settings: object) -> tuple[HaMaster, str]:
    master = HaMaster(store, {"host": "127.0.0.1", "port": 0, **settings})
    port = master.start()
    stack.callback(master.stop)
    return master, f"127.0.0.1:{port}"


def follow(stack: ExitStack, store: Store, address: str, first: int | None = 0) -> HaSlave:
    slave = HaSlave(store, {"retry_interval_ms": 50})
    slave.start()
    stack.callback(slave.stop)
    slave.set_master(address, first)
    return slave


def ends_at(slave: HaSlave, end: int) -> None:
    answer_of(slave.status, lambda status: status["offset"] == end)


def test_a_slave_serves_what_its_master_stored(stack: ExitStack, tmp_path: Path) -> None:
    store = stack.enter_context(opened(tmp_path / "master", "master"))
    copy = stack.enter_context(opened(tmp_path / "slave", "slave"))
    put(store, 200)
    master, address = serve(stack, store)
    slave = follow(stack, copy, address)
    put(store, 200)
    end = store.max_physical_offset()
    ends_at(slave, end)
    assert log_bytes(tmp_path / "master", end) == log_bytes(tmp_path / "slave", end)
    assert until(lambda: copy.max_offset("T", 0) == 400)
    assert copy.entries("T", 0, 0, 400) == store.entries("T", 0, 0, 400)
    assert copy.get("T", 0, 399).body == store.get("T", 0, 399).body
    (row,) = answer_of(master.slaves, lambda rows: rows[0]["lag_bytes"] == 0)
    assert (row["state"], row["acked_offset"], row["sent_offset"]) == ("transfer", end, end)
    status = slave.status()
    assert (status["state"], status["lag_bytes"], status["reason"]) == ("transfer", 0, "")
    assert put(copy) == ["SERVICE_NOT_AVAILABLE"]


def test_statuses_of_a_sync_master(stack: ExitStack, tmp_path: Path) -> None:
    store = stack.enter_context(opened(tmp_path / "master", "master"))
    copy = stack.enter_context(opened(tmp_path / "slave", "slave"))
    master, address = serve(stack, store)
    store.set_replica_wait(1, slave_timeout_ms=100)
    assert put(store) == ["SLAVE_NOT_AVAILABLE"]
    slave = follow(stack, copy, address)
    ends_at(slave, store.max_physical_offset())
    store.set_replica_wait(1, slave_timeout_ms=60_000)
    assert set(put(store, 100)) == {"PUT_OK"}
    assert copy.max_physical_offset() == store.max_physical_offset()
    slave.stop()
    assert until(lambda: not master.slaves())
    assert put(store) == ["SLAVE_NOT_AVAILABLE"]


def test_a_slave_is_promoted_and_its_master_follows(stack: ExitStack, tmp_path: Path) -> None:
    store = stack.enter_context(opened(tmp_path / "one", "master"))
    copy = stack.enter_context(opened(tmp_path / "two", "slave"))
    put(store, 10)
    master, address = serve(stack, store)
    slave = follow(stack, copy, address)
    ends_at(slave, store.max_physical_offset())
    slave.stop()
    master.stop()
    copy.set_role("master")
    store.set_role("slave")
    assert (copy.role(), store.role()) == ("master", "slave")
    assert copy.put("T", b"y").queue_offset == 10
    _, address = serve(stack, copy)
    slave = follow(stack, store, address)
    ends_at(slave, copy.max_physical_offset())
    assert until(lambda: store.max_offset("T", 0) == 11)


def test_a_slave_goes_on_where_a_later_master_begins(stack: ExitStack, tmp_path: Path) -> None:
    store, late, copy = (
        stack.enter_context(opened(tmp_path / name, role))
        for name, role in (("master", "master"), ("late", "slave"), ("copy", "slave"))
    )
    _, address = serve(stack, store)
    put(store, 20)
    slave = follow(stack, copy, address)
    ends_at(slave, store.max_physical_offset())
    slave.set_master(None)
    put(store, 400)
    end, start = store.max_physical_offset(), 2 << 16
    ends_at(follow(stack, late, address, start), end)
    _, address = serve(stack, late)
    slave.set_master(address)
    slave.note_master_range(start, end)
    ends_at(slave, end)
    assert until(lambda: copy.max_offset("T", 0) == 420)
    first = late.min_offset("T", 0)
    before, after = (copy.get("T", 0, offset) for offset in (0, 20))
    assert (before.message_count, before.next_begin_offset) == (20, 20)
    assert after.next_begin_offset == first + after.message_count, "the hole is skipped"
    assert (copy.min_physical_offset(), late.min_physical_offset()) == (0, start)


def test_a_deletion_waits_for_the_records_that_it_deletes(stack: ExitStack, tmp_path: Path) -> None:
    store = stack.enter_context(opened(tmp_path / "master", "master"))
    copy = stack.enter_context(opened(tmp_path / "slave", "slave"))
    put(store, 20)
    _, address = serve(stack, store)
    slave = follow(stack, copy, address)
    ends_at(slave, store.max_physical_offset())
    slave.set_master(None)
    put(store, 10)
    store.delete_topic("T")
    copy.take_deletions(store.deletions())
    assert copy.min_offset("T", 0) == 0
    slave.set_master(address, 0)
    ends_at(slave, store.max_physical_offset())
    copy.take_deletions(store.deletions())
    assert until(lambda: copy.min_offset("T", 0) == copy.max_offset("T", 0) == 30)
    put(store)
    assert until(lambda: copy.max_offset("T", 0) == 31)
    assert copy.min_offset("T", 0) == store.min_offset("T", 0) == 30
    with pytest.raises((StoreError, ValueError), match="deletions"):
        copy.take_deletions("[1")


def test_only_a_slave_follows(stack: ExitStack, tmp_path: Path) -> None:
    store = stack.enter_context(opened(tmp_path, "master"))
    with pytest.raises(StoreError, match="role slave"):
        HaSlave(store, {}).start()
    with pytest.raises(ValueError, match="transfer_batch_bytes"):
        HaMaster(store, {"port": 0, "transfer_batch_bytes": 0})
    with pytest.raises(ValueError, match="haAllowAddresses"):
        HaMaster(store, {"port": 0, "allow": ["everywhere"]})
    with pytest.raises(ValueError, match="master, slave or read_only"):
        store.set_role("leader")


COPY = """
import sys
from mqcommon._core import HaSlave
from mqstore import Settings, Store

root, address = sys.argv[1:]
settings = Settings(role="slave", min_free_bytes=0, **{small!r})
store = Store(root, settings, create=True)
slave = HaSlave(store, {{"retry_interval_ms": 20}})
slave.start()
slave.set_master(address, 0)
sys.stdin.readline()
"""


def test_a_slave_killed_again_and_again_ends_equal(stack: ExitStack, tmp_path: Path) -> None:
    store = stack.enter_context(opened(tmp_path / "master", "master"))
    master, address = serve(stack, store)
    store.set_replica_wait(1, slave_timeout_ms=60_000)
    command = [sys.executable, "-c", COPY.format(small=SMALL), str(tmp_path / "slave"), address]
    for _ in range(4):
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            assert until(lambda: any(row["acked_offset"] > 0 for row in master.slaves()))
            assert put(store, 50).count("PUT_OK") == 50
            process.send_signal(signal.SIGKILL)
        assert until(lambda: not master.slaves())
    end = store.max_physical_offset()
    copy = stack.enter_context(opened(tmp_path / "slave", "slave"))
    assert copy.max_physical_offset() == end, "what was acknowledged is there"
    assert log_bytes(tmp_path / "master", end) == log_bytes(tmp_path / "slave", end)

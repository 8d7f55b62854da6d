"""HA connections with Java 4.9.7: our slave of a Java master, and a Java slave of ours."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path

import pytest

from mqclient import Message, Producer
from mqcommon._core import HaMaster, HaSlave
from mqstore import Settings, Store
from tests.interop.conf import SMALL_STORE
from tests.interop.contents import Server
from tests.interop.java_servers import JavaBroker, JavaNamesrv
from tests.waiting import answer_of, until

SIZES = {"commit_log_file_bytes": 65536, "index_slots": 100, "index_entries": 400}


def opened(root: Path, role: str) -> Store:
    return Store(root, Settings(role=role, min_free_bytes=0, **SIZES), create=True)


def log_bytes(root: Path, start: int, end: int) -> bytes:
    files = sorted(file for file in (root / "commitlog").iterdir() if file.name.isdigit())
    whole = b"".join(file.read_bytes() for file in files)
    first = int(files[0].name)
    return whole[start - first : end - first]


def length(store: Store) -> int:
    queues = store.queues().get("Copied", [])
    return sum(store.max_offset("Copied", queue) for queue in queues)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def namesrv(java: None, tmp_path: Path, stack: ExitStack) -> str:
    server = JavaNamesrv(tmp_path / "namesrv")
    stack.callback(server.discard)
    return server.address


def send(namesrv: str, count: int, body: bytes) -> None:
    with Producer(namesrv) as producer:
        for number in range(count):
            producer.send(Message("Copied", body, keys=str(number)), timeout=30.0)
        batch = [Message("Copied", body) for _ in range(10)]
        producer.send(batch, timeout=30.0)


def test_our_slave_follows_a_java_master(namesrv: str, tmp_path: Path, stack: ExitStack) -> None:
    broker = JavaBroker(tmp_path / "java", namesrv)
    stack.callback(broker.discard)
    send(namesrv, 150, b"a" * 700)  # more than a file
    copies = [stack.enter_context(opened(tmp_path / name, "slave")) for name in ("last", "all")]
    slaves = []
    for copy, first_offset in zip(copies, (None, 0), strict=True):
        slave = HaSlave(copy, {})
        slave.start()
        stack.callback(slave.stop)
        slave.set_master(f"127.0.0.1:{broker.port + 1}", first_offset)
        slaves.append(slave)
    send(namesrv, 100, b"b" * 700)
    with Server(broker.address) as server:
        stored = server.length("Copied")
    assert stored == 270
    for copy, slave in zip(copies, slaves, strict=True):
        assert answer_of(partial(length, copy), stored.__eq__) == stored
        status = slave.status()
        assert (status["state"], status["lag_bytes"]) == ("transfer", 0)
        start, end = copy.min_physical_offset(), copy.max_physical_offset()
        assert (start == 0) == (copy is copies[1])
        root = tmp_path / ("all" if copy is copies[1] else "last")
        assert log_bytes(root, start, end) == log_bytes(broker.store, start, end)


def test_a_java_slave_follows_our_master(namesrv: str, tmp_path: Path, stack: ExitStack) -> None:
    store = stack.enter_context(opened(tmp_path / "ours", "master"))
    master = HaMaster(store, {"host": "127.0.0.1", "port": 0})
    port = master.start()
    stack.callback(master.stop)
    store.put("Copied", b"first")
    settings = {
        **SMALL_STORE,
        "brokerId": 1,
        "brokerRole": "SLAVE",
        "haMasterAddress": f"127.0.0.1:{port}",
    }
    broker = JavaBroker(tmp_path / "java", namesrv, settings=settings)
    stack.callback(broker.discard)
    for _ in range(300):
        assert store.put("Copied", b"x" * 700).status == "PUT_OK"
    end = store.max_physical_offset()
    has_it = answer_of(master.slaves, lambda rows: rows and rows[0]["acked_offset"] == end)
    assert has_it[0]["state"] == "transfer"
    store.set_replica_wait(1, slave_timeout_ms=60_000)
    assert [store.put("Copied", b"y").status for _ in range(20)] == ["PUT_OK"] * 20
    end = store.max_physical_offset()
    # A slave that joins after the first file begins at a later one.
    start = min(int(file.name) for file in (broker.store / "commitlog").iterdir())
    assert log_bytes(broker.store, start, end) == log_bytes(tmp_path / "ours", start, end)
    broker.kill()
    assert until(lambda: not master.slaves())
    assert store.put("Copied", b"z").status == "SLAVE_NOT_AVAILABLE"

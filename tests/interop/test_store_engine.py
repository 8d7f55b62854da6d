"""A store that the engine filled, opened by a Java broker: every record, key and offset."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import mqstore
from mqcommon.message import decode_messages
from tests.interop.contents import Contents, Server, assert_served, in_log, places
from tests.interop.engine_writer import GROUP, QUEUES, ROLLED, SETTINGS
from tests.interop.java_servers import JavaBroker
from tests.interop.our_servers import ROOT, OurNamesrv


@pytest.fixture(scope="module")
def namesrv(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = OurNamesrv(tmp_path_factory.mktemp("namesrv"))
    yield server.address
    server.stop()


def write(root: Path, ending: str) -> Contents:
    """Fill a store in a separate process; return the contents of its log."""
    command = [sys.executable, "-m", "tests.interop.engine_writer", str(root), ending]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)
    assert done.returncode == (-9 if ending == "kill" else 0), done.stderr
    contents = in_log(root)
    assert sum(map(len, contents.values())) == 63 + ROLLED + 2
    return contents


@pytest.mark.parametrize("ending", ["close", "kill"])
def test_java_serves_what_the_engine_stored(namesrv: str, ending: str, tmp_path: Path) -> None:
    """After a kill Java delivers the delayed message at once: its recovery dispatches before it
    knows the delay levels, so a queue entry that was not on disk yet gets no delivery time.
    """
    root = tmp_path / "store"
    contents = write(root, ending)
    end = mqstore.open(root).end_physical_offset()
    (tmp_path / "java").mkdir()
    broker = JavaBroker(tmp_path / "java", namesrv, store=root)
    try:
        with Server(broker.address) as server:
            assert_served(server, contents)
            assert_found(server, root, end)
            for queue_id in range(QUEUES if ending == "close" else 0):
                assert server.committed(GROUP, ("TopicEngine", queue_id)) == 3 + queue_id
        broker.stop()
    finally:
        broker.kill()
    now = in_log(root)
    for queue, records in contents.items():
        assert now[queue].items() >= records.items(), queue
    if ending == "close":
        assert now == contents
    assert_continues(root, now)


def assert_found(server: Server, root: Path, end: int) -> None:
    """Every record before `end` by its place, its unique key and each of its keys."""
    keyed = 0
    for message in mqstore.open(root).records(0, end):
        found = server.by_offset(message.commit_log_offset)
        assert found is not None
        assert decode_messages(found)[0].commit_log_offset == message.commit_log_offset
        if message.sys_flag & 0xC == 0xC:
            continue  # a rolled back record is not indexed
        unique = message.properties.get("UNIQ_KEY")
        for key in [*message.keys, *([unique] if unique else [])]:
            hits = server.by_key(message.topic, key)
            offsets = [decode_messages(hit)[0].commit_log_offset for hit in hits]
            assert message.commit_log_offset in offsets, (key, offsets)
            keyed += 1
    assert keyed > ROLLED + 120


def assert_continues(root: Path, contents: Contents) -> None:
    """After Java, the engine opens the store, serves the same messages and appends after them."""
    assert not mqstore.open(root).verify().damaged
    with mqstore.Store(root, SETTINGS) as store:
        for (topic, queue_id), records in contents.items():
            assert store.max_offset(topic, queue_id) == max(records) + 1
        put = store.put("TopicRoll", b"more", queue_id=3)
        assert put.queue_offset == ROLLED
    last = mqstore.open(root).last_message()
    assert last is not None and places(last) == [(("TopicRoll", 3), ROLLED)]

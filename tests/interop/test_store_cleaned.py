"""Stores whose oldest messages were deleted, by either side: the rest is served from its start."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import mqstore
from mqstore import Store
from tests.interop.contents import Contents, Server, assert_served, in_log
from tests.interop.engine_writer import SETTINGS
from tests.interop.load import QUEUES, Load
from tests.interop.our_servers import ROOT, OurNamesrv
from tests.interop.turns import Turns

GONE = 2
"""Log files that are deleted: all that the engine writes except the last."""


@pytest.fixture(scope="module")
def namesrv(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = OurNamesrv(tmp_path_factory.mktemp("namesrv"))
    yield server.address
    server.stop()


def log_files(root: Path) -> list[Path]:
    return sorted((root / "commitlog").iterdir())


def assert_begins(server: Server, contents: Contents) -> None:
    """Every queue begins with its first message that is left, and holds all of them."""
    for queue, records in contents.items():
        assert server.offset(31, queue) == min(records), queue
    assert_served(server, contents)


def test_java_opens_a_store_that_we_cleaned(namesrv: str, tmp_path: Path) -> None:
    with Turns(tmp_path, namesrv) as turns:
        command = [sys.executable, "-m", "tests.interop.engine_writer", str(turns.store), "close"]
        subprocess.run(command, cwd=ROOT, check=True, timeout=120)
        before = in_log(turns.store)
        kept = log_files(turns.store)[GONE:]
        with Store(turns.store, replace(SETTINGS, reserved_hours=0)) as store:
            assert store.clean()[0] == GONE
        assert log_files(turns.store) == kept
        contents = in_log(turns.store)
        assert 0 < sum(map(len, contents.values())) < sum(map(len, before.values()))
        serve(turns, contents)


def serve(turns: Turns, contents: Contents) -> None:
    broker = turns.start("java")
    with Server(broker.address) as server:
        assert_begins(server, contents)
    broker.stop()
    assert not mqstore.open(turns.store).verify().findings
    broker = turns.start("ours")
    with Server(broker.address) as server:
        assert_begins(server, contents)
    broker.stop()


def test_we_open_a_store_whose_first_files_java_lost(namesrv: str, tmp_path: Path) -> None:
    with Turns(tmp_path, namesrv) as turns:
        broker = turns.start("java")
        load = Load(broker.address, "TopicLoad")
        load.start()
        load.await_count(300)
        load.stop()
        broker.stop()
        for path in log_files(turns.store)[:GONE]:
            path.unlink()
        contents = {queue: records for queue, records in in_log(turns.store).items() if records}
        assert len(contents) == QUEUES
        for maker in ("ours", "java"):
            broker = turns.start(maker)
            with Server(broker.address) as server:
                assert_begins(server, contents)
            broker.stop()

"""Stores that we repaired or rebuilt, opened by a Java broker."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import mqstore
from mqstore import Store, StoreDamaged
from tests.common.golden import extract
from tests.interop.contents import Contents, Server, assert_served, in_log
from tests.interop.engine_writer import SETTINGS
from tests.interop.our_servers import ROOT, OurNamesrv
from tests.interop.turns import Turns

Repair = Callable[[Path, Path], Path]


@pytest.fixture(scope="module")
def namesrv(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = OurNamesrv(tmp_path_factory.mktemp("namesrv"))
    yield server.address
    server.stop()


def opened(root: Path, _to: Path) -> Path:
    """Repaired by the engine's own recovery."""
    with Store(root, SETTINGS) as store:
        assert store.runtime()["repairedDamages"] == "1"
    return root


def repaired(root: Path, to: Path) -> Path:
    """Repaired into a directory of its own."""
    report = mqstore.repair(root, to)
    assert len(report.repaired) == 1
    return to


def repaired_in_place(root: Path, _to: Path) -> Path:
    assert len(mqstore.repair(root, in_place=True).repaired) == 1
    return root


def serve(turns: Turns, contents: Contents) -> None:
    """A Java broker serves these records, stops cleanly, and leaves an intact store."""
    broker = turns.start("java")
    with Server(broker.address) as server:
        assert_served(server, contents)
    broker.stop()
    assert not mqstore.open(turns.store).verify().findings
    now = in_log(turns.store)
    assert all(now[queue].items() >= records.items() for queue, records in contents.items())


@pytest.mark.parametrize("repair", [opened, repaired])
def test_a_flipped_bit_costs_java_one_message(repair: Repair, namesrv: str, tmp_path: Path) -> None:
    """Java's own recovery would drop this message and all later ones."""
    with Turns(tmp_path, namesrv) as turns:
        damaged = extract("store-damaged", tmp_path / "golden")
        sound = in_log(extract("store-crashed-recovered", tmp_path / "golden"))
        shutil.move(repair(damaged, tmp_path / "to"), turns.store)
        contents = in_log(turns.store)
        lost = {q: sound[q].keys() - contents[q].keys() for q in sound}
        assert sum(map(len, lost.values())) == 1
        serve(turns, contents)


def engine_store(root: Path) -> Contents:
    command = [sys.executable, "-m", "tests.interop.engine_writer", str(root), "close"]
    subprocess.run(command, cwd=ROOT, check=True, timeout=120)
    return in_log(root)


def zero(root: Path, victim: int, size: int) -> None:
    """Overwrite a stretch of the log's first file."""
    with (root / "commitlog" / f"{0:020}").open("r+b") as log:
        log.seek(victim)
        log.write(bytes(size))


@pytest.mark.parametrize("repair", [opened, repaired_in_place])
def test_a_lost_stretch_costs_java_its_messages_only(
    repair: Repair, namesrv: str, tmp_path: Path
) -> None:
    """Two records in the log's first file are gone, heads and all."""
    root = tmp_path / "written"
    sound = engine_store(root)
    victims = list(mqstore.open(root).records())[20:22]
    start = victims[0].commit_log_offset
    zero(root, start, victims[1].commit_log_offset + victims[1].store_size - start)
    (root / "abort").touch()
    with Turns(tmp_path, namesrv) as turns:
        shutil.move(repair(root, tmp_path / "to"), turns.store)
        contents = in_log(turns.store)
        lost = {(q, offset) for q in sound for offset in sound[q].keys() - contents[q].keys()}
        assert lost == {((m.topic, m.queue_id), m.queue_offset) for m in victims}
        serve(turns, contents)


@pytest.mark.parametrize("name", ["store", "store-crashed", "store-damaged/after"])
def test_java_opens_what_was_rebuilt(name: str, namesrv: str, tmp_path: Path) -> None:
    root = extract(name, tmp_path / "golden")
    with Turns(tmp_path, namesrv) as turns:
        mqstore.rebuild(root, turns.store)
        contents = in_log(turns.store)
        topics = turns.state("topics.json")["topicConfigTable"]
        served = {queue: records for queue, records in contents.items() if queue[0] in topics}
        assert sum(map(len, served.values())) > 550
        serve(turns, served)
        reader = mqstore.open(turns.store)
        keyed = [message for message in reader.records() if message.keys][-1]
        assert keyed.commit_log_offset in [
            found.commit_log_offset for found in reader.find(keyed.topic, keyed.keys[0])
        ]


def test_a_damaged_log_is_not_rebuilt(tmp_path: Path) -> None:
    root = extract("store-damaged", tmp_path)
    with pytest.raises(StoreDamaged, match="repair"):
        mqstore.rebuild(root, tmp_path / "to")

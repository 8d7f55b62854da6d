"""`mqstore dump --follow`: the tail of a store that is being written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

import mqstore

PROGRAM = "import sys; from mqstore.cli import main; sys.exit(main())"
SETTINGS = mqstore.Settings(
    commit_log_file_bytes=1 << 16,
    index_slots=100,
    index_entries=400,
    min_free_bytes=0,
    allocate_step_bytes=1 << 16,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[mqstore.Store]:
    with mqstore.Store(tmp_path / "store", SETTINGS, create=True) as opened:
        yield opened


def bodies_of(stretches: Iterator[bytes], count: int) -> list[bytes]:
    """The first `count` bodies; the test's own limit ends a wait that is too long."""
    found: list[bytes] = []
    for stretch in stretches:
        found += [m.body for m in mqstore.decode_messages(stretch)]
        if len(found) >= count:
            break
    return found


@pytest.mark.timeout(200)
def test_following_sees_all_that_is_written_over_many_files(
    store: mqstore.Store, tmp_path: Path
) -> None:
    bodies = [b"%04d" % number + bytes(200) for number in range(3000)]
    store.put("T", bodies[0])
    gaps: list[mqstore.Gap] = []
    stretches = mqstore.open(tmp_path / "store").follow(on_gap=gaps.append)

    def write() -> None:
        for body in bodies[1:]:
            store.put("T", body)

    writer = threading.Thread(target=write)
    writer.start()
    assert bodies_of(stretches, len(bodies)) == bodies
    writer.join(60)
    assert store.max_physical_offset() > 10 << 16
    assert gaps == []


@pytest.mark.timeout(200)
def test_following_filters_and_ends_where_it_is_told(store: mqstore.Store, tmp_path: Path) -> None:
    for number in range(10):
        store.put("A" if number % 2 else "B", b"%d" % number)
    end = store.max_physical_offset()
    reader = mqstore.open(tmp_path / "store")
    found = list(reader.follow(wanted=mqstore.Wanted(topic="A", stop=end - 1)))
    assert [m.body for s in found for m in mqstore.decode_messages(s)] == [
        b"1", b"3", b"5", b"7", b"9",
    ]  # fmt: skip
    assert next(reader.follow(end)) == b""  # it has waited once


def started(directory: Path, *words: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", PROGRAM, "dump", str(directory), "--follow", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


@pytest.mark.timeout(200)
def test_the_command_follows_until_ctrl_c(store: mqstore.Store, tmp_path: Path) -> None:
    store.put("T", b"before")
    with started(tmp_path / "store", "--offset", "0") as process:
        assert process.stdout and process.stderr
        assert json.loads(process.stdout.readline())["body"] == "before"
        for number in range(3):
            store.put("T", b"live %d" % number)
            assert json.loads(process.stdout.readline())["body"] == f"live {number}"
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(60) == 130
        assert process.stderr.read() == b""


@pytest.mark.timeout(200)
def test_the_command_starts_at_the_end_and_stops_after_a_count(
    store: mqstore.Store, tmp_path: Path
) -> None:
    store.put("T", b"before")
    with started(tmp_path / "store", "--count", "2", "--output", "table") as process:
        assert process.stdout
        first = threading.Event()

        def write() -> None:
            while not first.is_set():
                store.put("T", b"live")
                first.wait(0.05)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            assert process.wait(60) == 0
        finally:
            first.set()
            writer.join(60)
        titles, _rule, *lines = process.stdout.read().decode().splitlines()
    assert titles.split()[:3] == ["commitLogOffset", "topic", "queueId"]
    assert len(lines) == 2
    assert all(line.split()[1:3] == ["T", "0"] and line.endswith("live") for line in lines)

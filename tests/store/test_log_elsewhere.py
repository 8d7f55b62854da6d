"""`storePathCommitLog`: a log on another disk than the rest of the store."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import mqstore
from mqcommon.wire.frame import Frame
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load
from mqserver.config.settings import store_settings
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.testing import free_port
from mqstore import Settings, Store
from scripts.server_process import ServerProcess

FILE_BYTES = 64 << 10
MESSAGES = 200
MEMORY = Path("/dev/shm")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Path]:
    """A directory in memory, if the system has one: renaming from `tmp_path` to there fails."""
    parent = MEMORY if os.access(MEMORY, os.W_OK) else tmp_path
    directory = Path(tempfile.mkdtemp(prefix="mqstack-log-", dir=parent))
    yield directory / "commitlog"
    shutil.rmtree(directory)


def _fill(root: Path, settings: Settings) -> dict[str, str]:
    with Store(root, settings, create=True) as store:
        for number in range(MESSAGES):
            assert store.put("T", b"x" * 1000, queue_id=0).queue_offset == number
        store.flush()
        return store.runtime()


def test_a_log_elsewhere_is_used_and_found_without_the_setting(tmp_path: Path, log: Path) -> None:
    root = tmp_path / "store"
    settings = Settings(commit_log_path=str(log), commit_log_file_bytes=FILE_BYTES)
    told = _fill(root, settings)
    assert {name for name in os.listdir(log) if len(name) != 20} == set(), "only RocketMQ's files"
    assert len(os.listdir(log)) >= MESSAGES * 1000 // FILE_BYTES
    assert (root / "commitlog").resolve() == log.resolve()
    used = [shutil.disk_usage(path) for path in (log, root)]
    ratios = [float(told[f"{name}DiskRatio"]) for name in ("commitLog", "consumeQueue")]
    for ratio, disk in zip(ratios, used, strict=True):
        assert ratio == pytest.approx(disk.used / (disk.used + disk.free), abs=0.03)
    reader = mqstore.open(root)
    report = reader.verify()
    assert not report.damaged, report.findings
    assert sum(1 for _ in reader.records()) == MESSAGES
    with Store(root) as store:
        assert store.put("T", b"x", queue_id=0).queue_offset == MESSAGES


def test_a_broker_takes_it_and_mqstore_verifies_the_store(tmp_path: Path, log: Path) -> None:
    port = free_port()
    file = tmp_path / "broker.conf"
    file.write_text(
        f"storePathRootDir={tmp_path}/store\nstorePathCommitLog={log}\nlistenPort={port}\n"
        f"mappedFileSizeCommitLog={FILE_BYTES}\nmaxHashSlotNum=100\nmaxIndexNum=400\n"
        "bindAddress=127.0.0.1\nfastPortEnable=false\nmaxMessageSize=4096\n"
    )
    command = [sys.executable, "-m", "mqserver.cli", "broker", "start", "-c", str(file)]
    server = ServerProcess(command, cwd=tmp_path, ready="boot success")
    try:
        letters = {"a": "p", "b": "New", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1"}
        with Probe(f"127.0.0.1:{port}") as probe:
            for _ in range(MESSAGES):
                reply = probe.call(
                    Frame(310, {**letters, "h": "0", "i": "", "m": "false"}, b"x" * 900)
                )
                assert reply.code == 0, reply.remark
        assert server.stop() == 0
    finally:
        server.kill()
    assert len(os.listdir(log)) > 1
    verify = [sys.executable, "-c", "from mqstore.cli import main; main()", "verify"]
    done = subprocess.run(
        [*verify, tmp_path / "store"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("value", ["", "{root}/commitlog", "{root}/x/../commitlog/"])
def test_the_usual_place_needs_no_link(tmp_path: Path, value: str) -> None:
    root = tmp_path / "store"
    file = tmp_path / "broker.conf"
    value = value.format(root=root)
    file.write_text(f"storePathRootDir={root}\nstorePathCommitLog={value}\n")
    assert store_settings(load(BROKER, file=file)).commit_log_path is None


def test_a_log_is_not_left_behind(tmp_path: Path, log: Path) -> None:
    root = tmp_path / "store"
    _fill(root, Settings(commit_log_file_bytes=FILE_BYTES))
    with pytest.raises(mqstore.UnknownLayout, match="move its files to"):
        Store(root, Settings(commit_log_path=str(log)), create=True)
    assert mqstore.open(root).verify().damaged is False

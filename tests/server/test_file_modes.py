"""Permissions of the servers' files: files 0640, folders 0750, under any umask."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from mqclient import Message, Producer
from mqcommon.wire.codes import RequestCode
from mqcommon.wire.frame import Frame
from mqserver.broker.acl.files import AclPaths, write
from mqserver.config.load import load, pairs
from mqserver.config.loaded import SettingsError
from mqserver.config.namesrv_table import NAMESRV
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.testing import free_port
from mqserver.runtime.file_modes import use
from scripts.server_process import ServerProcess


def server(kind: str, umask: str, home: Path, settings: dict[str, str]) -> ServerProcess:
    words = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    run = ["sh", "-c", f'umask {umask} && exec "$@"', "sh", sys.executable, "-m", "mqserver.cli"]
    return ServerProcess([*run, kind, "start", *words], cwd=home, ready="boot success")


def use_servers(home: Path, umask: str, more: dict[str, str]) -> None:
    """Start both, have them write every kind of file, stop them."""
    names, port = free_port(), free_port()
    common = {"bindAddress": "127.0.0.1", "logDir": str(home / "logs"), **more}
    kv = {"listenPort": str(names), "kvConfigPath": str(home / "names/deep/kvConfig.json")}
    here = {
        "listenPort": str(port), "namesrvAddr": f"127.0.0.1:{names}", "fastPortEnable": "false",
        "storePathRootDir": str(home / "data/store"), "mappedFileSizeCommitLog": str(1 << 20),
        "brokerIP1": "127.0.0.1", "enableConsumeQueueExt": "true", "maxHashSlotNum": "100",
        "maxIndexNum": "400", "minFreeBytes": "1000000",
    }  # fmt: skip
    running = [server("namesrv", umask, home, common | kv)]
    try:
        running.append(server("broker", umask, home, common | here))
        with Producer(f"127.0.0.1:{names}") as producer:
            producer.send(Message("Modes", b"now" * 100_000, keys="key"))
            for _ in range(5):
                producer.send(Message("Modes", b"rolls" * 50_000))
            producer.send(Message("Modes", b"later", delay_level=1))
        with Probe(f"127.0.0.1:{names}") as probe:
            row = {"namespace": "a", "key": "k", "value": "v"}
            assert probe.call(Frame(RequestCode.PUT_KV_CONFIG, row)).code == 0
            changed = Frame(
                RequestCode.UPDATE_NAMESRV_CONFIG, body=b"adminAllowAddresses=10.0.0.0/8"
            )
            assert probe.call(changed).code == 0
        with Probe(f"127.0.0.1:{port}") as probe:
            changed = Frame(RequestCode.UPDATE_BROKER_CONFIG, body=b"fileReservedTime=48")
            assert probe.call(changed).code == 0
    finally:
        for process in reversed(running):
            process.stop()


def modes(folder: Path) -> dict[str, str]:
    """Each file and folder below, with its permission bits in octal."""
    return {
        str(path.relative_to(folder)): f"{stat.S_IMODE(path.lstat().st_mode):04o}"
        for path in sorted(folder.rglob("*"))
    }


def split(folder: Path) -> tuple[dict[str, str], dict[str, str]]:
    found = modes(folder)
    folders = {name: mode for name, mode in found.items() if (folder / name).is_dir()}
    return {name: mode for name, mode in found.items() if name not in folders}, folders


@pytest.mark.parametrize("umask", ["000", "022"])
def test_files_and_folders_of_servers_are_not_for_everybody(umask: str, tmp_path: Path) -> None:
    use_servers(tmp_path, umask, {})
    made, folders = split(tmp_path)
    assert {name: mode for name, mode in made.items() if mode != "0640"} == {}
    assert {name: mode for name, mode in folders.items() if mode != "0750"} == {}
    kinds = ["commitlog/", "consumequeue/", "consumequeue_ext/", "index/", "config/topics.json",
             "checkpoint", "lock", "mqstack/state/topics.json.sum", "mqstack/closed.json",
             "broker.override.properties", "namesrv.override.properties", "kvConfig.json",
             "logs/broker.log", "logs/namesrv.log", "logs/stats.log"]  # fmt: skip
    for kind in kinds:
        assert any(kind in name for name in made), f"nothing was written of {kind}: {made}"


def test_files_for_a_group_are_for_it_whatever_the_umask(tmp_path: Path) -> None:
    use_servers(tmp_path, "022", {"storeFileMode": "0660"})
    made, folders = split(tmp_path)
    assert set(made.values()) == {"0660"}
    assert set(folders.values()) == {"0770"}


def test_a_stricter_umask_stays_strict(tmp_path: Path) -> None:
    use_servers(tmp_path, "077", {})
    made, folders = split(tmp_path)
    assert set(made.values()) == {"0600"}
    assert set(folders.values()) == {"0700"}


def test_files_that_are_there_keep_their_modes(tmp_path: Path) -> None:
    use_servers(tmp_path, "022", {})
    made, _ = split(tmp_path)
    names = ("topics.json", "kvConfig.json", "override.properties", ".log", "checkpoint")
    chosen = [tmp_path / name for name in made if name.endswith(names)]
    assert len(chosen) > len(names)
    for path in chosen:
        path.chmod(0o664)
    use_servers(tmp_path, "022", {})
    after, _ = split(tmp_path)
    changed = {path.name: after[str(path.relative_to(tmp_path))] for path in chosen}
    assert set(changed.values()) == {"0664"}, changed


IN_A_PROGRAM = """
import os, sys
os.umask(0)
from mqstore import Settings, Store
with Store(sys.argv[1], Settings(commit_log_file_bytes=1 << 20), create=True) as store:
    store.put("Topic", b"x")
    store.save_state("topics.json", b"{}")
assert os.umask(0) == 0, "the program's own umask is not touched"
"""


def test_a_store_in_a_program_is_as_private(tmp_path: Path) -> None:
    run = [sys.executable, "-c", IN_A_PROGRAM, str(tmp_path / "store")]
    subprocess.run(run, check=True)
    made, folders = split(tmp_path)
    assert set(made.values()) == {"0640"}
    assert set(folders.values()) == {"0750"}


REPAIRED = """
import os, pathlib, sys
os.umask(0)
from mqstore import Settings, Store
settings = Settings(commit_log_file_bytes=1 << 20)
with Store(sys.argv[1], settings, create=True) as store:
    for _ in range(5):
        store.put("Topic", b"x" * 300)
log = pathlib.Path(sys.argv[1], "commitlog", "0" * 20)
data = bytearray(log.read_bytes())
at = data.index(b"x" * 300, data.index(b"x" * 300) + 300)
data[at] ^= 1
log.write_bytes(data)
with Store(sys.argv[1], settings):
    pass
"""


def test_damaged_bytes_that_are_kept_are_as_private(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", REPAIRED, str(tmp_path / "store")], check=True)
    made, folders = split(tmp_path)
    assert any("mqstack/quarantine/" in name for name in made), made
    assert set(made.values()) == {"0640"}
    assert set(folders.values()) == {"0750"}


def test_access_files_are_secret(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        places = AclPaths(tmp_path, "conf/plain_acl.yml")
        places.ensure()
        write(tmp_path / "conf/new.yml", {"accounts": []})
    finally:
        os.umask(before)
    assert modes(tmp_path) == {
        "conf": "0750", "conf/new.yml": "0600", "conf/plain_acl.yml": "0600",
    }  # fmt: skip


@pytest.mark.parametrize("text", ["", "640x", "0440", "0755", "01640", "-640", "٠٦٤٠", "0940"])
def test_a_mode_that_makes_no_sense_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match=r"storeFileMode=.*must be an octal mode"):
        use(load(NAMESRV, flags=pairs({"storeFileMode": text}, "--set")))

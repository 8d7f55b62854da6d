"""A start imports only the modules that the server needs, and a failed start reports the cause."""

import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from mqserver.broker.broker import Broker
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqstore import StorePoisoned

UNNEEDED = {
    "numpy", "rich", "watchdog", "cryptography", "prometheus_client", "zstandard", "lz4",
    "pyarrow", "pyspark", "mqclient.consumer", "mqpipeline", "mqserver.commands.quickstart",
    "mqserver.embedded.standalone", "mqserver.broker.metrics", "mqserver.namesrv.metrics",
    "mqstore.offline", "mqserver.registration.registrar", "asyncio",
}  # fmt: skip
"""Slow imports: for extras, for other commands, or needed only after the port is open."""

AT_LISTEN = """
import os, sys
from mqserver.cli import main
import mqserver.runtime.listener

def start(self, accept=True):
    print("\\n".join(sys.modules), flush=True)
    os._exit(0)

mqserver.runtime.listener.Listener.start = start
sys.argv = ["mqserver", *sys.argv[1:]]
main()
"""


def imported_at_listen(*words: str) -> set[str]:
    """Modules of a server that is about to listen."""
    command = [sys.executable, "-c", AT_LISTEN, *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return set(ended.stdout.split())


@pytest.mark.parametrize("server", ["broker", "namesrv"])
def test_a_server_loads_what_it_serves(server: str, tmp_path: Path) -> None:
    own = (
        ("namesrvAddr=127.0.0.1:1", f"storePathRootDir={tmp_path}", "diskMaxUsedSpaceRatio=95")
        if server == "broker"
        else (f"kvConfigPath={tmp_path / 'kv.json'}",)
    )
    settings = ["listenPort=0", "bindAddress=127.0.0.1", *own]
    loaded = imported_at_listen(server, "start", *(w for s in settings for w in ("--set", s)))
    assert {"mqserver.runtime.listener", "encodings.idna", "encodings.latin_1"} <= loaded
    assert loaded & UNNEEDED == set()
    other = "mqserver.namesrv.server" if server == "broker" else "mqserver.broker.broker"
    assert other not in loaded


AT_READY = """
import gc, os, sys
from mqserver.commands import command_runtime as running
from mqserver.cli import main

def announce(line):
    print("collector on:", gc.isenabled(), flush=True)
    os._exit(0)

running.announce = announce
sys.argv = ["mqserver", *sys.argv[1:]]
main()
"""


@pytest.mark.parametrize("words", [["broker", "start"], ["namesrv", "start"], ["standalone"]])
def test_a_server_that_is_ready_collects_garbage(words: list[str], tmp_path: Path) -> None:
    own = {
        "broker": ["--set", "listenPort=0", "--set", f"storePathRootDir={tmp_path}"],
        "namesrv": ["--set", "listenPort=0", "--set", f"kvConfigPath={tmp_path / 'kv.json'}"],
        "standalone": ["--data", str(tmp_path), "--set", "listenPort=0", "--set-namesrv",
                       "listenPort=0"],
    }  # fmt: skip
    command = [sys.executable, "-c", AT_READY, *words, *own[words[0]]]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert "collector on: True" in ended.stdout, ended.stdout + ended.stderr


def test_a_failed_start_reports_its_cause_if_closing_fails_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def close() -> None:
        raise StorePoisoned("the disk is full")

    def serve(_broker: Broker, _store: object, _opened: object) -> None:
        raise OSError("the port is in use")

    store = SimpleNamespace(failures=dict, close=close)
    monkeypatch.setattr("mqserver.broker.broker.open_store", lambda *_: store)
    monkeypatch.setattr(Broker, "_serve", serve)
    broker = Broker(load(BROKER, flags=pairs({"storePathRootDir": str(tmp_path)}, "test")))
    with pytest.raises(OSError, match="the port is in use"):
        broker.start()
    assert "its store was not closed: the disk is full" in caplog.text


def test_a_start_that_fails_late_ends_what_it_began(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def made(_broker: Broker) -> None:
        raise OSError("no registrar")

    monkeypatch.setattr(Broker, "_made_registrar", made)
    own = {"storePathRootDir": str(tmp_path), "listenPort": "0", "metricsListen": "127.0.0.1:0"}
    broker = Broker(load(BROKER, flags=pairs(own, "test")))
    before = set(threading.enumerate())
    with pytest.raises(OSError, match="no registrar"):
        broker.start()
    begun = {"state-saver", "transaction-check", "health"}
    assert begun & {thread.name for thread in set(threading.enumerate()) - before} == set()
    assert not (tmp_path / "abort").exists()

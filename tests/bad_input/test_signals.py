"""Stopping: one signal stops in order, a second ends the process at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mqserver.broker.broker import Broker
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqserver.running import BURST_S
from mqstore import StorePoisoned

STUCK = """
from mqserver.running import on_signals
import time
stopped = on_signals()
print("ready", flush=True)
stopped.wait()
print("stopping", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_does_not_wait(number: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as lines:
        assert lines.readline() == "ready\n"
        for _ in range(4):  # a burst: one signal, however often it comes
            process.send_signal(number)
        assert lines.readline() == "stopping\n"
        time.sleep(BURST_S)
        assert process.poll() is None
        process.send_signal(number)
        assert process.wait(60) == 130


def test_a_poisoned_store_is_said_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = {
        "storePathRootDir": str(tmp_path),
        "listenPort": "0",
        "bindAddress": "127.0.0.1",
        "fastPortEnable": "false",
        "mappedFileSizeCommitLog": str(1 << 20),
        "minFreeBytes": "1",
    }
    broker = Broker(load(BROKER, flags=pairs(settings, "test")))
    broker.start()
    close = broker.context.store.close

    def poisoned() -> None:
        close()
        raise StorePoisoned("a write failed")

    monkeypatch.setattr(broker, "_store", type("Store", (), {"close": staticmethod(poisoned)}))
    broker.stop()
    assert broker.poisoned

"""Stopping: one signal stops in order, a second ends the process at once."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from mqserver.broker.broker import Broker
from mqserver.config.broker_table import BROKER
from mqserver.config.load import load, pairs
from mqstore import StorePoisoned
from tests.waiting import until

STUCK = """
from mqcommon.signals import stop_on_signals
import time
stopped = stop_on_signals()
print("ready", flush=True)
stopped.wait()
print("stopping", flush=True)
time.sleep(60)
"""


INTERRUPTED_WAIT = """
import signal, sys
from mqcommon.signals import stop_on_signals

def interrupt(line):
    lines = iter(range(1000))

    def trace(frame, event, _argument):
        if event == "line" and next(lines) == line:
            signal.raise_signal(signal.SIGTERM)
        return trace

    return trace

for line in range(4):
    stopped = stop_on_signals()
    sys.settrace(interrupt(line))
    stopped.wait(0.1)
    sys.settrace(None)
print("stopping")
"""


def test_a_signal_at_any_line_of_the_wait_ends_it() -> None:
    command = [sys.executable, "-c", INTERRUPTED_WAIT]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "stopping\n"


ANOTHER_THREADS = """
from mqcommon.signals import stop_on_signals
import signal, threading
stopped = stop_on_signals()

def receive():
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

threading.Timer(0.2, receive).start()
stopped.wait()
print("stopping")
"""


def test_a_signal_that_another_thread_receives_ends_the_wait() -> None:
    """The kernel may choose any thread, for instance when a stopped process continues."""
    command = [sys.executable, "-c", ANOTHER_THREADS]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    assert done.stdout == "stopping\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_does_not_wait(number: int) -> None:
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout as lines:
        assert lines.readline() == "ready\n"
        for _ in range(4):  # a burst: one signal, however often it comes
            process.send_signal(number)
        assert lines.readline() == "stopping\n"
        assert process.poll() is None
        assert until(lambda: _ends_with(process, number))  # once the burst is over
        assert process.returncode == 130


def _ends_with(process: subprocess.Popen[str], number: int) -> bool:
    process.send_signal(number)
    return process.poll() is not None


@pytest.mark.parametrize(
    "error", [StorePoisoned("a write failed"), OSError(28, "No space left on device")]
)
def test_a_store_that_cannot_be_closed_is_said_at_the_end(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    error: Exception,
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
        raise error

    fake = {"close": staticmethod(poisoned), "max_physical_offset": staticmethod(lambda: 0)}
    monkeypatch.setattr(broker, "_store", type("Store", (), fake))
    broker.stop()
    assert broker.poisoned
    said = [line.getMessage() for line in caplog.records if line.levelname == "ERROR"]
    assert said == [
        f"broker {broker.settings.broker_name} stopped; the next start recovers its store: {error}"
    ]

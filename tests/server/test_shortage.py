"""Too little address space (`ulimit -v`): one line that says so, and exit code 1."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from mqcommon.cli import shortage as limits
from mqcommon.cli.shortage import shortage, telling_shortage
from mqserver.embedded.standalone import Standalone
from mqserver.embedded.testing import free_port

MODULES = {
    "mqserver": "mqserver.cli",
    "mqstore": "mqstore.cli",
    "mqclient": "mqclient.cli",
    "mqadmin": "mqadmin",
}
ENDLESS_S = 60


def limited(kib: int, program: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command that may have so much address space."""
    run = f"import sys; from {MODULES[program]} import main; sys.exit(main())"
    command = ["sh", "-c", f'ulimit -v {kib} && exec "$@"', "sh", sys.executable, "-c", run]
    return subprocess.run(
        [*command, *words], capture_output=True, text=True, timeout=ENDLESS_S, check=False
    )


def check(ended: subprocess.CompletedProcess[str], program: str, kib: int) -> None:
    """One line of the program's own, beside the log's."""
    own = [line for line in ended.stderr.splitlines() if line.startswith(f"{program}: ")]
    assert len(own) == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert own[0].startswith(f"{program}: no "), ended.stderr
    assert f"the limit on address space is {kib >> 10} MiB; raise ulimit -v" in own[0]
    assert ended.returncode == 1


@pytest.mark.parametrize("kib", [20_000, 40_000, 60_000, 120_000, 200_000])
@pytest.mark.parametrize("command", ["broker start", "standalone", "quickstart"])
def test_a_server_says_what_it_lacks(command: str, kib: int, tmp_path: Path) -> None:
    settings = [f"listenPort={free_port()}", "bindAddress=127.0.0.1"]
    words = [word for setting in settings for word in ("--set", setting)]
    if command == "broker start":
        words += ["--set", f"storePathRootDir={tmp_path / 'store'}"]
    elif command == "standalone":
        words += ["--data", str(tmp_path / "store"), "--set-namesrv", f"listenPort={free_port()}"]
    else:
        words = ["--free-ports"]
    check(limited(kib, "mqserver", *command.split(), *words), "mqserver", kib)


@pytest.mark.parametrize("kib", [20_000, 40_000, 60_000])
def test_a_nameserver_says_what_it_lacks(kib: int) -> None:
    words = ("namesrv", "start", "--set", f"listenPort={free_port()}")
    check(limited(kib, "mqserver", *words), "mqserver", kib)


@pytest.fixture(scope="module")
def mq(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with Standalone(tmp_path_factory.mktemp("data")) as both:
        both.topic("Limited")
        yield both


@pytest.mark.parametrize("kib", [20_000, 30_000, 36_000])
def test_mqstore_says_what_it_lacks(kib: int, mq: Standalone) -> None:
    check(limited(kib, "mqstore", "verify", str(mq.data)), "mqstore", kib)


@pytest.mark.parametrize("kib", [20_000, 60_000, 100_000])
def test_a_bench_says_what_it_lacks(kib: int, mq: Standalone) -> None:
    words = ("-n", mq.namesrv, "-t", "Limited", "--threads", "64", "--duration", "1")
    check(limited(kib, "mqclient", "bench", "produce", *words), "mqclient", kib)


@pytest.mark.parametrize(
    ("program", "words"),
    [("mqclient", ("send", "Limited", "x", "-n")), ("mqadmin", ("topicList", "-n"))],
)
def test_a_client_says_what_it_lacks(program: str, words: tuple[str, ...], mq: Standalone) -> None:
    check(limited(52_000, program, *words, mq.namesrv), program, 52_000)


def test_only_a_shortage_is_one() -> None:
    assert shortage(MemoryError()) == "no memory is left"
    assert shortage(OSError(12, "Cannot allocate memory")) is not None
    assert shortage(RuntimeError("can't start new thread")) is not None
    for other in (OSError(98, "in use"), RuntimeError("x"), ImportError("No module named y")):
        assert shortage(other) is None
    masked = RuntimeError("cannot join thread before it is started")
    masked.__context__ = RuntimeError("can't start new thread")
    assert shortage(masked) == "no thread can be started (can't start new thread)"


def test_an_interrupted_import_ends_quietly() -> None:
    with pytest.raises(SystemExit) as ended, telling_shortage("mqclient"):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise RuntimeError("Error calling __set_name__") from error
    assert ended.value.code == 130


def test_the_hook_of_threads_lasts_as_long_as_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "_limit_bytes", lambda: 1 << 40)
    monkeypatch.setattr(limits, "_save_address_space", lambda: None)
    usual = threading.excepthook
    with telling_shortage("mqclient"):
        assert threading.excepthook is not usual
    assert threading.excepthook is usual

"""The server and its process: signals, forks, threads that end."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from mqcommon import _core
from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import ask
from mqserver.embedded.testing import free_port
from mqserver.runtime.processor_api import Response
from scripts.server_process import ServerProcess
from tests.server.conftest import Servers
from tests.server.raw import DEADLINE, json_frame
from tests.server.server_commands import COMMANDS, server_command
from tests.waiting import until

WAITING = """
from mqcommon import _core
server = _core.Server({"kind": "namesrv", "port": 0, "host": "127.0.0.1", "families": {"all": 1}})
server.start()
print("waiting", flush=True)
server.next("all", 3600.0)
"""


def test_ctrl_c_ends_a_wait_on_the_main_thread():
    with subprocess.Popen(
        [sys.executable, "-c", WAITING], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "waiting\n"
            started = time.monotonic()
            process.send_signal(signal.SIGINT)
            _, errors = process.communicate(timeout=DEADLINE)
        finally:
            process.kill()
    assert "KeyboardInterrupt" in errors
    assert time.monotonic() - started < DEADLINE / 2


@pytest.mark.parametrize("command", COMMANDS)
def test_a_server_may_open_as_many_files_as_the_system_lets_it(command: str, tmp_path: Path):
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert most > 512, "else the limit was not raised here"
    limited = ["sh", "-c", 'ulimit -Sn 512 && exec "$@"', "sh"]
    run = [*limited, *server_command(command, tmp_path, free_port())]
    process = ServerProcess(run, cwd=tmp_path, ready="boot success")
    try:
        assert resource.prlimit(process.pid, resource.RLIMIT_NOFILE) == (most, most)
    finally:
        process.kill()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("command", COMMANDS)
def test_a_closed_terminal_ends_no_server(command: str, tmp_path: Path):
    port = free_port()
    run = server_command(command, tmp_path, port)
    process = subprocess.Popen(run, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        while "boot success" not in (line := process.stdout.readline()) or (
            command == "standalone" and "broker[" not in line
        ):
            assert line, "it ended before it was ready"
        process.send_signal(signal.SIGHUP)
        code = 319 if command == "namesrv start" else 26
        assert ask(f"127.0.0.1:{port}", Frame(code)).code == 0
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=DEADLINE)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0


def test_a_forked_child_gets_an_error(servers: Servers):
    listener, port = servers.start({1: lambda _: Response()})
    child = os.fork()
    if child == 0:
        try:
            listener.send(1, b"")
        except RuntimeError as error:
            os._exit(0 if "fork" in str(error) else 2)
        os._exit(1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
    assert servers.connect(port).ask(json_frame(1, 1)).code == 0, "the parent goes on"


def test_a_stop_ends_the_threads(servers):
    before = {*threading.enumerate()}  # of which some may end meanwhile
    listener, _ = servers.start({1: lambda _: Response()}, threads=5)
    assert len({*threading.enumerate()} - before) == 6
    listener.stop(DEADLINE)
    assert not {*threading.enumerate()} - before
    listener.stop(DEADLINE)  # twice is fine


def test_a_server_nobody_stopped_goes_with_its_last_reference():
    server = _core.Server({"kind": "namesrv", "port": 0, "host": "127.0.0.1"})
    port, _ = server.start()
    with pytest.raises(RuntimeError, match="started already"):
        server.start()
    del server
    again = _core.Server({"kind": "namesrv", "port": port, "host": "127.0.0.1"})

    def starts() -> bool:
        with suppress(OSError):  # the port is not free yet
            again.start()
            return True
        return False

    assert until(starts)
    again.stop(0.1)
    with pytest.raises(_core.ServerStopped):
        again.next("events", 0.1)

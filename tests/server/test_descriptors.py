"""A server with few file descriptors keeps enough of them for its store."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from mqcommon.wire.frame import Frame
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.testing import free_port
from scripts.server_process import ServerProcess
from tests.waiting import until

OPEN_FILES = 256
CONNECTIONS = 64
"""256 less a quarter for queue files and 128 for the rest."""


def _start(command: str, port: int, directory: Path) -> ServerProcess:
    settings = [f"listenPort={port}", "bindAddress=127.0.0.1", f"kvConfigPath={directory}/kv.json"]
    if command == "broker":
        settings = [*settings[:2], "fastPortEnable=false", f"storePathRootDir={directory}/store"]
        settings += ["mappedFileSizeCommitLog=1048576", "maxHashSlotNum=100", "maxIndexNum=400"]
    words = [word for setting in settings for word in ("--set", setting)]
    return _limited(OPEN_FILES, [command, "start", *words], directory, "boot success")


def _limited(open_files: int, words: list[str], directory: Path, ready: str) -> ServerProcess:
    limited = ["sh", "-c", f'ulimit -n {open_files} && exec "$@"', "sh", sys.executable]
    return ServerProcess([*limited, "-m", "mqserver.cli", *words], cwd=directory, ready=ready)


def _is_open(connection: socket.socket) -> bool:
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


def _send(topic: str) -> Frame:
    letters = {"a": "p", "b": topic, "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1"}
    return Frame(310, {**letters, "h": "0", "i": "", "m": "false"}, b"x")


def test_a_flood_of_connections_leaves_the_store_its_files(tmp_path: Path) -> None:
    port = free_port()
    server = _start("broker", port, tmp_path)
    try:
        with ExitStack() as stack:
            probe = stack.enter_context(Probe(f"127.0.0.1:{port}"))
            assert probe.call(_send("First")).code == 0
            flood = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
                for _ in range(OPEN_FILES)
            ]
            codes = [probe.call(_send(f"New-{number}")).code for number in range(60)]
            assert codes == [0] * 60
            assert sum(map(_is_open, flood)) == CONNECTIONS - 1
        assert server.stop() == 0, "a poisoned store ends with 3"
    finally:
        server.kill()


@pytest.mark.parametrize("command", ["namesrv", "broker"])
def test_the_connections_are_as_many_as_descriptors_allow(command: str, tmp_path: Path) -> None:
    port = free_port()
    server = _start(command, port, tmp_path)
    try:
        with ExitStack() as stack:
            flood = [
                stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
                for _ in range(CONNECTIONS + 1)
            ]
            flood[-1].settimeout(60)
            assert flood[-1].recv(1) == b"", "one more than allowed is closed"
            assert all(map(_is_open, flood[:-1]))
    finally:
        server.kill()


def test_the_servers_of_a_standalone_share_what_the_store_leaves(tmp_path: Path) -> None:
    open_files, names, broker = 512, free_port(), free_port()
    run = ["standalone", "--data", str(tmp_path / "store"), "--set", f"listenPort={broker}"]
    run += ["--set-namesrv", f"listenPort={names}"]
    server = _limited(open_files, run, tmp_path, "ready: ")
    try:
        with ExitStack() as stack:
            probe = stack.enter_context(Probe(f"127.0.0.1:{broker}"))
            flood = {
                port: [
                    stack.enter_context(socket.create_connection(("127.0.0.1", port), 60))
                    for _ in range(open_files // 2)
                ]
                for port in (names, broker)
            }
            codes = [probe.call(_send(f"New-{number}")).code for number in range(60)]
            assert codes == [0] * 60
            share = (open_files - open_files // 4 - 128) // 2
            held = [sum(map(_is_open, connections)) for connections in flood.values()]
            assert max(held) <= share
            # The broker and the probe have a few.
            assert min(held) >= share - 8
        assert server.stop() == 0, "a poisoned store ends with 3"
    finally:
        server.kill()


def test_a_flood_during_the_start_harms_nothing(tmp_path: Path) -> None:
    port = free_port()
    over = threading.Event()
    flood: list[socket.socket] = []

    def connect() -> None:
        while not over.is_set():
            with suppress(OSError):
                flood.append(socket.create_connection(("127.0.0.1", port), 60))

    thread = threading.Thread(target=connect)
    thread.start()
    server = None
    try:
        server = _start("broker", port, tmp_path)
        assert until(lambda: sum(map(_is_open, flood[:])) >= CONNECTIONS)
        over.set()
        thread.join()
        assert "Too many open files" not in server.output
        for connection in flood:
            connection.close()
        assert until(lambda: _answers(port))
        with Probe(f"127.0.0.1:{port}") as probe:
            codes = [probe.call(_send(f"New-{number}")).code for number in range(20)]
            assert codes == [0] * 20
        assert server.stop() == 0
    finally:
        over.set()
        thread.join()
        for connection in flood:
            connection.close()
        if server is not None:
            server.kill()


def _answers(port: int) -> bool:
    with suppress(OSError), Probe(f"127.0.0.1:{port}") as probe:
        return probe.call(_send("First")).code == 0
    return False


@pytest.mark.parametrize("command", ["namesrv", "broker", "standalone"])
def test_too_few_descriptors_are_refused_with_the_number(command: str, tmp_path: Path) -> None:
    needed = 213 if command == "standalone" else 191
    words = {
        "namesrv": ["namesrv", "start", "--set", f"kvConfigPath={tmp_path}/kv.json"],
        "broker": ["broker", "start", "--set", f"storePathRootDir={tmp_path}/store"],
        "standalone": ["standalone", "--data", f"{tmp_path}/data"],
    }[command]
    script = f'ulimit -n {needed - 1} && exec "$@"'
    limited = ["sh", "-c", script, "sh", sys.executable, "-m", "mqserver.cli", *words]
    done = subprocess.run(limited, capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert done.returncode != 0
    assert f"needs {needed}: " in done.stderr
    assert "Traceback" not in done.stderr
    assert needed - (needed // 4) - 128 >= 16 * (2 if command == "standalone" else 1)

"""The container's command, and a broker without `brokerIP1`: a machine may administer itself."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from scripts.server_process import ServerProcess
from tests.interop.nat import GATEWAY_INSIDE, INSIDE, Nat, NoNamespaces

ROOT = Path(__file__).parent.parent.parent
KINDS = {"mqserver": "server", "mqadmin": "admin"}
NAMES, BROKER = 9876, 10911
DENIED = 4


def instruction(name: str) -> str:
    """The last instruction of this name in the Dockerfile."""
    found: list[str] = re.findall(rf"^{name}\s+(.*)$", (ROOT / "Dockerfile").read_text(), re.M)
    return found[-1]


def here(*words: str) -> list[str]:
    """A command of ours with this interpreter."""
    return [sys.executable, "-m", "mqserver.mqstack", KINDS[words[0]], *words[1:]]


def output_of(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture(scope="module")
def nat() -> Iterator[Nat]:
    """Inside is the container, and the gateway its host."""
    try:
        with Nat({}) as made:
            yield made
    except NoNamespaces as reason:
        pytest.skip(f"no network of our own: {reason}")


def start(nat: Nat, home: Path, *words: str, ready: str) -> ServerProcess:
    command = nat.inside(*here(*words))
    return ServerProcess(command, cwd=home, ready=ready, env={"PYTHONPATH": str(ROOT)})


def check(nat: Nat) -> None:
    """Inside the NAT any own address may administer; from the host, the error names the setting."""
    make = ("mqadmin", "updateTopic", "-t")
    for number, host in enumerate(("127.0.0.1", INSIDE)):
        by_address = here(*make, f"A{number}", "-n", f"{host}:{NAMES}", "-b", f"{host}:{BROKER}")
        by_cluster = here(*make, f"C{number}", "-n", f"{host}:{NAMES}", "-c", "DefaultCluster")
        for command in (by_address, by_cluster):
            code, printed = output_of(nat.inside(*command))
            assert code == 0, printed
    from_host = here(*make, "T", "-n", f"{INSIDE}:{NAMES}", "-b", f"{INSIDE}:{BROKER}")
    code, printed = output_of(nat.gateway(*from_host))
    assert code == DENIED, printed
    assert (
        f"{GATEWAY_INSIDE} may not administer this server (request 17); add its network to "
        in printed
    )
    assert "adminAllowAddresses in the server's settings" in printed
    assert "check the topic's perm" not in printed, "a hint that leads elsewhere"


def test_the_containers_command(nat: Nat, tmp_path: Path) -> None:
    assert instruction("EXPOSE") == f"{NAMES} {BROKER - 2} {BROKER} {BROKER + 1}"
    words = json.loads(instruction("CMD"))
    folder = words[words.index("--data") + 1]
    assert folder == "/data"
    words[words.index("--data") + 1] = str(tmp_path / "data")
    server = start(nat, tmp_path, *words, ready="ready: ")
    try:
        assert f"clients will be told {INSIDE}:{BROKER} (from: the interface)" in server.output
        assert "set registrationSecret" in server.output
        check(nat)
    finally:
        assert server.stop() == 0, server.output


def test_a_broker_without_an_address_of_its_own(nat: Nat, tmp_path: Path) -> None:
    names = start(nat, tmp_path, "mqserver", "namesrv", "start", ready="boot success")
    broker = None
    try:
        store = f"storePathRootDir={tmp_path / 'store'}"
        small = ("--set", "mappedFileSizeCommitLog=65536", "--set", "minFreeBytes=1000000")
        words = ("broker", "start", "-n", f"{INSIDE}:{NAMES}", "--set", store, *small)
        broker = start(nat, tmp_path, "mqserver", *words, ready="boot success")
        check(nat)
    finally:
        for server in (broker, names):
            assert server is None or server.stop() == 0, server.output

"""What requests need is imported before the first connection: later, descriptors may be gone."""

from __future__ import annotations

import ast
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from mqclient.wire.frame import Frame
from mqserver.broker.table import PROCESSORS
from mqserver.probe import Probe
from mqserver.testing import free_port
from scripts.server_process import ServerProcess

ROOT = Path(__file__).parent.parent.parent
SERVING = ("mqserver/*.py", "mqserver/broker/**/*.py", "mqserver/names/**/*.py",
           "mqserver/config/*.py", "mqclient/wire/**/*.py", "mqstore/*.py")  # fmt: skip
COMMANDS = ("cli", "commands", "running", "quickstart", "standalone", "child", "pair", "probe",
            "testing", "pytest_plugin", "mqstack", "page", "spark", "option_names",
            "arrow", "__init__", "shortage")  # fmt: skip
"""Files that serve no request: commands, and what is for tests and tools."""
AT_START = {
    "http.client": "address servers; a failed look is made again",
    "yaml": "ACL, which reads its files before the port opens",
    "prometheus_client": "metricsListen",
    "mqserver.health": "metricsListen",
    "mqserver.broker.metrics": "metricsListen",
    "mqserver.names.metrics": "metricsListen",
    "mqserver.names.product": "productEnvName",
    "mqserver.broker.acl.control": "aclEnable",
    "logging.handlers": "the log file",
    "pathlib": "the log file",
    "resource": "the limit of connections",
    "fcntl": "the machine's addresses",
    "importlib": "--version",
}
"""Modules of features that import them when they start, before there is a connection."""
SECRET = "correct horse battery staple"
SHOWN = "modules: "
PROGRAM = f"""
import sys
from mqserver import warm_up
real = warm_up.accept_when_imported
def shown(modules, accept, load=None):
    def told():
        print({SHOWN!r} + " ".join(sys.modules), flush=True)
        accept()
    real(modules, told, load)
warm_up.accept_when_imported = shown
from mqserver.cli import main
main()
"""


def late_imports(paths: Iterator[Path]) -> dict[str, str]:
    """Modules that functions import, and where."""
    found: dict[str, str] = {}
    for path in paths:
        if path.stem in COMMANDS:
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            for node in ast.walk(function):
                names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
                if isinstance(node, ast.ImportFrom) and node.module:
                    names = [node.module]
                found.update(dict.fromkeys(names, f"{path.name}:{getattr(node, 'lineno', 0)}"))
    return found


def words_of(server: str, port: int, directory: Path) -> list[str]:
    settings = [f"listenPort={port}", "bindAddress=127.0.0.1", f"registrationSecret={SECRET}"]
    if server == "namesrv":
        settings += [f"kvConfigPath={directory}/kv.json"]
    else:
        settings += ["fastPortEnable=false", f"storePathRootDir={directory}/store"]
        settings += ["mappedFileSizeCommitLog=1048576", "maxHashSlotNum=100", "maxIndexNum=400"]
    return [server, "start", *(word for one in settings for word in ("--set", one))]


@pytest.mark.parametrize("server", ["broker", "namesrv"])
def test_late_imports_are_done_before_the_first_connection(server: str, tmp_path: Path) -> None:
    run = [sys.executable, "-c", PROGRAM, *words_of(server, free_port(), tmp_path)]
    process = ServerProcess(run, cwd=ROOT)
    try:
        loaded = set(process.await_line(SHOWN).removeprefix(SHOWN).split())
    finally:
        process.stop()
    kept_out = "names" if server == "broker" else "broker"
    files = (path for pattern in SERVING for path in sorted(ROOT.glob(pattern)))
    late = late_imports(path for path in files if f"mqserver/{kept_out}/" not in str(path))
    assert len(late) > 10, "nothing was looked at"
    needed = {name for name in late if name.partition(".")[0] not in AT_START} - set(AT_START)
    if server == "namesrv":
        needed -= {name for name in needed if name.startswith("mqserver.broker")}
    missing = {name: late[name] for name in needed if name not in loaded}
    assert not missing, "name them in mqserver/warm_up.py"


def test_requests_without_a_free_descriptor_import_nothing(tmp_path: Path) -> None:
    port = free_port()
    command = [sys.executable, "-m", "mqserver.cli", *words_of("broker", port, tmp_path)]
    process = ServerProcess(command, cwd=tmp_path, ready="boot success")
    try:
        with Probe(f"127.0.0.1:{port}", timeout=2.0) as probe:
            assert probe.call(Frame(28)).code == 0
            used = max(int(name) for name in os.listdir(f"/proc/{process.pid}/fd")) + 1
            _, hard = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (used, hard))
            remarks = {}
            for code in PROCESSORS:
                frame = Frame(int(code), {"topic": "T", "group": "g"}, b"{}")
                with suppress(TimeoutError):  # some are held, some have no answer
                    remarks[int(code)] = probe.call(frame).remark or ""
        wrong = {
            code: remark
            for code, remark in remarks.items()
            if "import" in remark.lower() or "module" in remark.lower()
        }
        assert not wrong
        assert len(remarks) > 50
        assert "ImportError" not in process.output
        assert "ModuleNotFoundError" not in process.output
    finally:
        process.kill()

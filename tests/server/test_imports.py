"""What requests need is imported before they are accepted: later, descriptors may be gone."""

from __future__ import annotations

import ast
import os
import resource
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mqcommon.wire.frame import Frame
from mqserver.broker.table import PROCESSORS
from mqserver.embedded.raw_client import Probe
from mqserver.embedded.testing import free_port
from scripts.server_process import ServerProcess

ROOT = Path(__file__).parent.parent.parent
SERVING = ("mqserver/**/*.py", "mqcommon/*.py", "mqcommon/wire/**/*.py", "mqstore/*.py",
           "mqcommon/cli/e*.py", "mqcommon/cli/shortage.py")  # fmt: skip
LATE = {
    "mqserver.cli: mqserver.commands.main": "under a low ulimit -v, an import is what fails first",
    "mqserver.cli: mqserver.commands.command_runtime": "under a low ulimit -v, this fails first",
    "mqserver.commands.main: mqserver.commands.namesrv": "a command loads what it runs",
    "mqserver.commands.main: mqserver.commands.broker": "a command loads what it runs",
    "mqserver.commands.main: mqserver.commands.standalone": "a command loads what it runs",
    "mqserver.commands.main: mqserver.commands.quickstart": "a command loads what it runs",
    "mqserver.broker.broker: mqserver.broker.acl.control": "YAML; few brokers have accounts",
    "mqserver.commands.broker: mqserver.broker.acl.control": "YAML; few brokers have accounts",
    "mqserver.broker.broker: mqserver.registration.registrar": "a quarter of the imports: asyncio, "
    "TLS, the client engine; the port is open by then, and requests are accepted after it",
    "mqserver.broker.replication.replication: mqserver.broker.replication.slave": "asyncio and the "
    "client engine; a master needs neither",
    "mqserver.broker.replication.replication: mqserver.broker.replication.returning": "the same; "
    "the broker accepts requests before it",
    "mqserver.broker.broker: mqserver.health.endpoints": "HTTP server; with the extra `metrics`",
    "mqserver.broker.broker: mqserver.broker.metrics": "needs the extra `metrics`",
    "mqserver.namesrv.server: mqserver.health.endpoints": "HTTP server; with the extra `metrics`",
    "mqserver.namesrv.server: mqserver.namesrv.metrics": "needs the extra `metrics`",
    "mqserver.health.endpoints: prometheus_client": "the extra `metrics`",
    "mqserver.namesrv.server: mqserver.namesrv.product": "the whole client; for test clusters",
    "mqserver.embedded.pytest_plugin: mqserver.embedded.standalone": "pytest loads it for every "
    "project",
    "mqserver: mqserver.embedded.standalone": "importing the package is cheap",
    "mqserver: mqcommon.version": "importing the package is cheap",
    "mqstore: mqcommon.version": "importing the package is cheap",
    "mqcommon.version: importlib": "only `--version` reads metadata",
    "mqcommon.cli.shortage: ctypes": "only under a limit on address space",
}
"""Imports inside functions: module, the import, and why it is not at the top."""
SECRET = "correct horse battery staple"


def late_imports() -> Iterator[str]:
    """Every import inside a function of what serves requests."""
    for path in sorted(path for pattern in SERVING for path in ROOT.glob(pattern)):
        home = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for function in ast.walk(ast.parse(path.read_text())):
            if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            for node in ast.walk(function):
                if isinstance(node, ast.Import):
                    yield from (f"{home}: {alias.name}" for alias in node.names)
                elif isinstance(node, ast.ImportFrom):
                    yield f"{home}: {node.module}"


def test_imports_stand_at_the_top() -> None:
    late = set(late_imports())
    assert not late - LATE.keys(), "import at the top, or say in LATE why not"
    assert not LATE.keys() - late, "these are gone: take them out of LATE"


def words_of(server: str, port: int, directory: Path) -> list[str]:
    settings = [f"listenPort={port}", "bindAddress=127.0.0.1", f"registrationSecret={SECRET}"]
    if server == "namesrv":
        settings += [f"kvConfigPath={directory}/kv.json"]
    else:
        settings += ["fastPortEnable=false", f"storePathRootDir={directory}/store"]
        settings += ["mappedFileSizeCommitLog=1048576", "maxHashSlotNum=100", "maxIndexNum=400"]
    return [server, "start", *(word for one in settings for word in ("--set", one))]


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

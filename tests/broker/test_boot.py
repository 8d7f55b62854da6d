"""What a server has imported by the time its port opens: each module there delays every start."""

import gc
import subprocess
import sys
from pathlib import Path

import pytest

UNNEEDED = {
    "asyncio", "ssl", "subprocess", "multiprocessing", "concurrent.futures", "shutil", "bz2",
    "lzma", "difflib", "http", "http.client", "http.server", "email", "argparse", "tempfile",
    "numpy", "click", "rich", "yaml", "watchdog", "cryptography", "prometheus_client",
    "zstandard", "lz4", "mqclient.config", "mqclient.transport", "mqclient.tls",
    "mqserver.health", "mqserver.commands", "mqserver.standalone",
    "mqserver.broker.acl.control", "mqserver.broker.metrics", "mqserver.broker.register",
    "mqstore.offline",
}  # fmt: skip
"""Heavy, or for features that are off; what a broker needs after its port is open comes then."""

AT_LISTEN = """
import os, sys
from mqserver.cli import main
import mqserver.listener

def start(self, accept=True):
    print("\\n".join(sys.modules), flush=True)
    os._exit(0)

mqserver.listener.Listener.start = start
sys.argv = ["mqserver", *sys.argv[1:]]
main()
"""


def imported_at_listen(*words: str) -> set[str]:
    """Modules of a server that is about to listen."""
    command = [sys.executable, "-c", AT_LISTEN, *words]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return set(ended.stdout.split())


@pytest.mark.parametrize("server", ["broker", "namesrv"])
def test_a_server_imports_little_before_it_listens(server: str, tmp_path: Path) -> None:
    own = (
        ("namesrvAddr=127.0.0.1:1", f"storePathRootDir={tmp_path}", "diskMaxUsedSpaceRatio=95")
        if server == "broker"
        else (f"kvConfigPath={tmp_path / 'kv.json'}",)
    )
    settings = ["listenPort=0", "bindAddress=127.0.0.1", *own]
    loaded = imported_at_listen(server, "start", *(w for s in settings for w in ("--set", s)))
    assert "mqserver.listener" in loaded
    assert loaded & UNNEEDED == set()
    other = "mqserver.names.server" if server == "broker" else "mqserver.broker.broker"
    assert other not in loaded
    assert len(loaded) < 200


def test_garbage_is_collected_again_after_the_start() -> None:
    from mqserver.running import _collect_garbage

    gc.disable()
    try:
        _collect_garbage()
        assert gc.isenabled()
    finally:
        gc.unfreeze()
        gc.enable()

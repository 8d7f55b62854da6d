"""The limit: a server that only answers and stores nothing, measured like a broker.

It shows about the highest rate that any broker can reach with this client on this machine; a goal
above it is out of reach.
"""

from __future__ import annotations

import shutil
import subprocess

from benches.lib.harness import ROOT
from benches.lib.servers import Cluster
from mqserver.embedded.testing import free_port

SOURCE = ROOT / "rust" / "bench" / "examples" / "limit.rs"
COMPILE = ("rustc", "-O", "--edition", "2024", "-C", "codegen-units=1")


class Limit(Cluster):
    """rust/bench/examples/limit.rs: NameServer and broker in one process.

    With SYNC_FLUSH it writes each request to a file and flushes the file before it answers.
    """

    name = "limit"

    def _start(self) -> None:
        program = self.folder / "limit"
        subprocess.run([*COMPILE, SOURCE, "-o", program], check=True)
        port = free_port()
        self.namesrv = f"127.0.0.1:{port}"
        is_sync = self.settings.get("flushDiskType") == "SYNC_FLUSH"
        log = [str(self.folder / "log")] if is_sync else []
        self._run([str(program), str(port), *log], port)


def missing() -> str | None:
    """The reason why it cannot be built; None if it can."""
    return None if shutil.which("rustc") else "there is no rustc"

"""Our NameServer and broker as processes, with the same configuration files as the Java ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from mqserver.embedded.testing import free_port
from scripts.server_process import ServerProcess
from tests.interop.conf import SMALL_STORE, broker_settings, write_conf

ROOT = Path(__file__).parent.parent.parent


def start(home: Path, *words: str) -> ServerProcess:
    """`mqserver ...` with this interpreter; it works in `home`, which it may write to."""
    command = [sys.executable, "-m", "mqserver.cli", *words]
    return ServerProcess(command, cwd=home, ready="boot success", env={"PYTHONPATH": str(ROOT)})


class OurNamesrv:
    """`mqserver namesrv start` on a free port; ready when the constructor returns."""

    def __init__(self, home: Path, *, settings: Mapping[str, object] | None = None) -> None:
        self.port = free_port()
        self.address = f"127.0.0.1:{self.port}"
        own = {"listenPort": self.port, "kvConfigPath": home / "kvConfig.json"}
        conf = write_conf(home / "namesrv.conf", {**own, **(settings or {})})
        self.process = start(home, "namesrv", "start", "-c", str(conf))

    def stop(self) -> None:
        assert self.process.stop() == 0, self.process.output

    def discard(self) -> None:
        """End it in order, and look at how it ends: it is under test."""
        self.stop()


class OurBroker:
    """`mqserver broker start` on a free triple of ports; registered when ready."""

    def __init__(
        self,
        home: Path,
        namesrv: str,
        *,
        name: str = "broker-a",
        port: int | None = None,
        store: Path | None = None,
        settings: Mapping[str, object] | None = None,
    ) -> None:
        self.port = port or free_port()
        self.address = f"127.0.0.1:{self.port}"
        self.name = name
        self.store = store or home / "store"
        values = broker_settings(name, namesrv, self.port, self.store)
        extra = SMALL_STORE if settings is None else settings
        conf = write_conf(home / "broker.conf", {**values, **extra})
        self.process = start(home, "broker", "start", "-c", str(conf))

    def stop(self) -> None:
        assert self.process.stop() == 0, self.process.output

    def discard(self) -> None:
        """End it in order, and look at how it ends: it is under test."""
        self.stop()

    def kill(self) -> None:
        """SIGKILL: its store then needs the recovery of an abnormal stop."""
        self.process.kill()

"""Command lines of servers on free ports."""

from __future__ import annotations

import sys
from pathlib import Path

from mqserver.embedded.testing import free_port

COMMANDS = ("namesrv start", "broker start", "standalone")


def server_command(command: str, folder: Path, port: int) -> list[str]:
    """The words that start a server on loopback.

    command: one of `COMMANDS`. folder: of its files. port: of the NameServer; the broker's for the
    other commands.
    """
    settings = [f"listenPort={port}", "bindAddress=127.0.0.1"]
    if command == "namesrv start":
        settings.append(f"kvConfigPath={folder / 'kv.json'}")
    else:
        settings += ["fastPortEnable=false", f"storePathRootDir={folder / 'store'}"]
    words = [word for setting in settings for word in ("--set", setting)]
    if command == "standalone":
        words += ["--data", str(folder / "store"), "--set-namesrv", f"listenPort={free_port()}"]
    return [sys.executable, "-m", "mqserver.cli", *command.split(), *words]

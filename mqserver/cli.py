"""`mqserver`: the entry point.

The commands are click's, in `commands.py`. Starting a server with ordinary options goes past
click, whose import costs a third of the time from exec to the open port.
"""

from __future__ import annotations

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

from mqstore.commands.shortage import telling_shortage

NEEDS_MIB = {"broker": 2_560, "standalone": 512, "quickstart": 512, "namesrv": 128}
"""Address space by command; a broker maps files of RocketMQ's sizes."""
_FILE = ("-c", "--configFile")
_NAMESRV = ("-n", "--namesrvAddr")


class Start:
    """`mqserver broker start` or `mqserver namesrv start` with ordinary options."""

    __slots__ = ("file", "namesrv", "server", "settings")

    def __init__(
        self, server: str, file: str | None, namesrv: str | None, settings: dict[str, str]
    ) -> None:
        self.server = server
        self.file = file
        self.namesrv = namesrv
        self.settings = settings


def plain_start(words: list[str]) -> Start | None:
    """Read a start command that needs no help, no printing and no error message."""
    if len(words) < 2 or words[0] not in ("broker", "namesrv") or words[1] != "start":
        return None
    file = namesrv = None
    settings: dict[str, str] = {}
    rest = words[2:]
    if len(rest) % 2:
        return None
    for option, value in zip(rest[::2], rest[1::2], strict=True):
        key, separator, text = value.partition("=")
        if option in _FILE:
            file = value
        elif option in _NAMESRV:
            namesrv = value
        elif option == "--set" and separator and key:
            settings[key] = text
        else:
            return None
    return Start(words[0], file, namesrv, settings)


class _Later(ModuleType):
    """Stands for a module that others import, but hardly use, until something of it is used."""

    def __getattr__(self, name: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), name)


def main() -> None:
    """Entry point of `mqserver`."""
    with telling_shortage("mqserver", NEEDS_MIB.get("".join(sys.argv[1:2]), 0)):
        _main()


def _main() -> None:
    start = plain_start(sys.argv[1:])
    if start is None:
        from mqserver.commands import cli

        cli(prog_name="mqserver")
        return
    gc.disable()  # hardly anything that a start makes is garbage; `running` enables it again
    # A sixth of the start, for what `dataclasses` documents where a class does not, and for the
    # text of exceptions in the log.
    for name in ("inspect", "traceback"):
        sys.modules.setdefault(name, _Later(name))
    from mqserver import running

    if start.server == "broker":
        running.run_broker(start.file, start.namesrv, start.settings)
    else:
        running.run_namesrv(start.file, start.settings)


if __name__ == "__main__":
    main()

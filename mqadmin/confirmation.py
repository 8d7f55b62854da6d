"""Requirements of a command that changes stored data: an address that was given, and a yes."""

from __future__ import annotations

import os
import sys

from mqadmin.catalogue import is_rocketmqs
from mqadmin.command import Arguments, Command, Option, UsageError
from mqclient.admin import Admin

__all__ = ["DRY_RUN", "is_confirmed", "require_address"]

DRY_RUN = Option("", "dry-run", "Show what would change, and change nothing", takes_value=False)
"""The option with which such a command changes nothing."""


def require_address(command: Command, arguments: Arguments) -> None:
    """Refuse a command that changes stored data on the default address."""
    if command.effect is None or os.environ.get("NAMESRV_ADDR"):
        return
    if not arguments.text("namesrvAddr") and not arguments.text("brokerAddr"):
        raise UsageError(
            f"{command.name} changes stored data, so it needs an address: "
            "give -n HOST:PORT or --context NAME, or set NAMESRV_ADDR"
        )


async def is_confirmed(command: Command, admin: Admin, arguments: Arguments) -> bool:
    """Whether a command may run. On a terminal, the user sees the effect and says yes first.

    Without a terminal, RocketMQ's commands run as RocketMQ's do, and ours need --yes.
    """
    if command.effect is None or arguments.flag("yes") or arguments.flag(DRY_RUN.long):
        return True
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        if is_rocketmqs(command.name):
            return True
        raise UsageError(f"{command.name} changes stored data: confirm it with --yes")
    if arguments.context:
        sys.stderr.write(f"Context {arguments.context}: {arguments.text('namesrvAddr')}\n")
    sys.stderr.write(f"This will {await command.effect(admin, arguments)}.\nContinue? [y/N] ")
    sys.stderr.flush()
    if sys.stdin.readline().strip().lower() in ("y", "yes"):
        return True
    sys.stderr.write("mqadmin: nothing was changed\n")
    return False

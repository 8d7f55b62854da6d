"""A group of sub-commands whose modules are imported when they are used."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

__all__ = ["LazyGroup", "Listed"]


class Listed(NamedTuple):
    """A sub-command: the module that has a click command of the same name, and its help line.

    A minus in the name is an underscore in the module.
    """

    module: str
    summary: str


class LazyGroup(click.Group):
    """Imports the module of the sub-command that is used, and of no other.

    listed: sub-commands by name.
    """

    def __init__(self, *args: Any, listed: Mapping[str, Listed], **options: Any) -> None:
        super().__init__(*args, **options)
        self._listed = listed

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every sub-command, by name."""
        return sorted(self._listed)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The sub-command of a name, None when there is none."""
        if cmd_name not in self._listed:
            return None
        module = import_module(self._listed[cmd_name].module)
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the sub-commands without importing any of them."""
        rows = [(name, self._listed[name].summary) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

"""A group of sub-commands whose modules are imported only when used."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import click

from mqcommon.cli.options import DEBUG

__all__ = ["LazyGroup", "Listed", "add_debug", "invoke"]


def invoke(cli: click.Command, program: str, words: Sequence[str] | None = None) -> Any:
    """Run a command line, for `running.run`; returns the command's result.

    words: the command line without the program's name; None for `sys.argv`. Unlike `cli.main`, it
    leaves a broken pipe to the caller.
    """
    wish = f"_{program.upper()}_COMPLETE"
    if wish in os.environ:
        from click.shell_completion import shell_complete

        raise click.exceptions.Exit(shell_complete(cli, {}, program, wish, os.environ[wish]))
    with cli.make_context(program, list(sys.argv[1:] if words is None else words)) as context:
        return cli.invoke(context)


def add_debug(command: click.Command) -> None:
    """Add --debug to a command and, if it is a group, to its sub-commands."""
    if DEBUG not in command.params:
        command.params.append(DEBUG)
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            add_debug(inner)


class Listed(NamedTuple):
    """A sub-command: the module with the click command of the same name, and its help line.

    A hyphen in the name is an underscore in the module.
    """

    module: str
    summary: str


class LazyGroup(click.Group):
    """Imports only the module of the sub-command that is used.

    listed: sub-commands by name.
    """

    def __init__(self, *args: Any, listed: Mapping[str, Listed], **options: Any) -> None:
        super().__init__(*args, **options)
        self._listed = listed
        self.params.append(DEBUG)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every sub-command, by name."""
        return sorted(self._listed)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The sub-command with this name; None if there is none."""
        if cmd_name not in self._listed:
            return None
        module = import_module(self._listed[cmd_name].module)
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        add_debug(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the sub-commands without importing any of them."""
        rows = [(name, self._listed[name].summary) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)

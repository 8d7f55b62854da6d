"""The command `mqstore`: look into a store directory, live or dead, and mend a dead one.

Exit codes: 0 all is well, 1 failed, 2 wrong usage, 5 damage found.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from mqstore.shortage import telling_shortage

with telling_shortage("mqstore"):
    import click

    from mqstore.cli.output import EXIT_DAMAGED
    from mqstore.errors import StoreDamaged, StoreError

__all__ = ["main"]

_HOMES = {
    "ls": "ls",
    "stat": "stat",
    "dump": "dump",
    "verify": "verify",
    "export": "export",
    "repair": "mend",
    "rebuild": "mend",
}
"""The module of each command."""


class _Commands(click.Group):
    """Loads the one that is asked for: a command starts fast."""

    def list_commands(self, context: click.Context) -> list[str]:
        return sorted(_HOMES)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        if name not in _HOMES:
            return None
        command: click.Command = getattr(import_module(f"mqstore.cli.{_HOMES[name]}"), name)
        return command


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mqstack", message="%(prog)s %(version)s")
def cli() -> None:
    """Look into a RocketMQ store directory, live or dead; only repair and rebuild write one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.

    arguments: without the program's name; None takes those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with telling_shortage("mqstore"), cli.make_context("mqstore", words) as context:
            cli.invoke(context)
        sys.stdout.flush()
        return 0
    except click.exceptions.Exit as end:
        return end.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return 130
    except BrokenPipeError:  # the reader of our pipe has seen enough
        _forget_output()
        return 0
    except ImportError as error:  # it names the extra
        click.echo(f"mqstore: {error}", err=True)
        return 1
    except StoreDamaged as error:
        click.echo(f"mqstore: {error}", err=True)
        return EXIT_DAMAGED
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        click.echo(f"mqstore: {where}{error.strerror or error}", err=True)
        _forget_output()
        return 1
    except (StoreError, ValueError) as error:
        click.echo(f"mqstore: {error}", err=True)
        return 1


def _forget_output() -> None:
    """Drop what standard output could not take, or the interpreter tries again at its end."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

"""The command `mqstore`: look into a store directory, live or dead, without touching it.

Exit codes: 0 all is well, 1 failed, 2 wrong usage, 5 damage found.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from mqstore.cli.dump import dump
from mqstore.cli.ls import ls
from mqstore.cli.verify import verify
from mqstore.errors import DecodeError, StoreError

__all__ = ["main"]

NOT_BUILT_YET = {
    "stat": "say layout, sizes and state of a store",
    "export": "write messages as JSON lines, CSV or Parquet",
    "repair": "cut or heal a damaged log",
    "rebuild": "make queues and index anew from the log",
}


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Look into a RocketMQ store directory, live or dead; nothing is changed."""


def _not_built_yet(name: str, purpose: str) -> click.Command:
    @click.command(
        name,
        help=f"Not built yet: {purpose}.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    @click.pass_context
    def command(context: click.Context) -> None:
        click.echo(f"mqstore {name} is not built yet (it will {purpose}).", err=True)
        context.exit(2)

    return command


for _command in (ls, dump, verify):
    cli.add_command(_command)
for _name, _purpose in NOT_BUILT_YET.items():
    cli.add_command(_not_built_yet(_name, _purpose))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.

    arguments: without the program's name; None takes those of the process.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with cli.make_context("mqstore", words) as context:
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
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (StoreError, DecodeError, OSError) as error:
        click.echo(f"mqstore: {error}", err=True)
        return 1

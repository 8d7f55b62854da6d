"""The group of commands, loaded when used, and what their errors mean to a shell."""

import os
import sys
from collections.abc import Sequence
from importlib import import_module

import click

from mqclient.errors import BrokerError, ClientTimeout, RocketMQError, UnreachableError
from mqclient.wire.codes import ResponseCode
from mqstore.shortage import telling_shortage

__all__ = ["cli", "exit_code_of", "main"]

FAILED, USAGE, UNREACHABLE, DENIED = 1, 2, 3, 4

COMMANDS = {
    "bench": "Measure a broker: throughput and latency.",
    "send": "Send messages, from arguments or from lines of standard input.",
    "tail": "Print a topic's messages as they come; joins no group, commits nothing.",
}
"""Commands that work; each is a module of this package with a command of the same name."""

NOT_BUILT_YET = {"consume": "read a topic as a member of a consumer group"}


class LazyGroup(click.Group):
    """Imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, by name."""
        return sorted(COMMANDS | NOT_BUILT_YET)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, None when there is none."""
        if cmd_name in NOT_BUILT_YET:
            return _not_built_yet(cmd_name, NOT_BUILT_YET[cmd_name])
        if cmd_name not in COMMANDS:
            return None
        module = import_module(f"mqclient.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing any of them."""
        rows = [(name, COMMANDS.get(name, "Not built yet.")) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _not_built_yet(name: str, purpose: str) -> click.Command:
    @click.command(
        name,
        help=f"Not built yet: {purpose}.",
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
    @click.pass_context
    def command(context: click.Context) -> None:
        click.echo(
            f"mqclient {name} is not built yet (it will {purpose}); "
            f"mqclient tail reads without a group, mqclient.PushConsumer with one.",
            err=True,
        )
        context.exit(USAGE)

    return command


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="mqstack", message="%(prog)s %(version)s")
def cli() -> None:
    """Move messages in and out of RocketMQ."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.

    arguments: without the program's name; None takes those of the process.
    """
    words = None if arguments is None else list(arguments)
    try:
        with telling_shortage("mqclient"):
            result = cli.main(words, prog_name="mqclient", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except (RocketMQError, ValueError, TypeError) as error:
        click.echo(f"mqclient: {error}", err=True)
        return exit_code_of(error)
    except ImportError as error:  # it names the extra
        click.echo(f"mqclient: {error}", err=True)
        return FAILED
    except OSError as error:
        click.echo(f"mqclient: {error}", err=True)
        return FAILED
    return result if isinstance(result, int) else 0


def exit_code_of(error: Exception) -> int:
    """The exit code that tells a shell what went wrong."""
    if isinstance(error, BrokerError):
        denied = error.code == ResponseCode.NO_PERMISSION or "AclException" in error.remark
        return DENIED if denied else FAILED
    if isinstance(error, (UnreachableError, ClientTimeout)):
        return UNREACHABLE
    return FAILED if isinstance(error, RocketMQError) else USAGE

"""The group of commands, and how they end."""

from collections.abc import Sequence

import click

from mqclient.commands.failures import failure_of
from mqstore.commands import exit_codes, running
from mqstore.commands.groups import LazyGroup, Listed

__all__ = ["cli", "main"]

COMMANDS = {
    "bench": Listed("mqclient.cli.bench", "Measure a broker: throughput and latency."),
    "consume": Listed("mqclient.cli.consume", "Not built yet."),
    "send": Listed(
        "mqclient.cli.send", "Send messages, from arguments or from lines of standard input."
    ),
    "tail": Listed(
        "mqclient.cli.tail",
        "Print a topic's messages as they come; joins no group, commits nothing.",
    ),
}


@click.group(
    cls=LazyGroup, listed=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="mqstack", message="%(prog)s %(version)s")
def cli() -> None:
    """Move messages in and out of RocketMQ."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.

    arguments: without the program's name; None takes those of the process.
    """
    words = None if arguments is None else list(arguments)
    return running.run(
        "mqclient",
        lambda: cli.main(words, prog_name="mqclient", standalone_mode=False),
        _judge,
        broken_pipe=exit_codes.FAILED,  # what should have been sent may not be
    )


def _judge(error: Exception) -> running.Failure | None:
    """Arguments that a client refuses are the user's: a wrong usage."""
    if isinstance(error, ValueError | TypeError):
        return running.Failure(str(error), exit_codes.USAGE)
    return failure_of(error)

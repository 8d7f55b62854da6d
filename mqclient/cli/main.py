"""The group of commands, and how they end."""

from collections.abc import Sequence

import click

from mqclient.cli.failures import failure_of
from mqcommon.cli import running
from mqcommon.cli.groups import LazyGroup, Listed, invoke

__all__ = ["cli", "main"]

COMMANDS = {
    "bench": Listed("mqclient.cli.bench", "Measure a broker: throughput and latency."),
    "consume": Listed("mqclient.cli.consume", "Read a topic as a member of a group, and commit."),
    "request": Listed("mqclient.cli.request", "Send a message and wait for the reply."),
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

    arguments: without the program's name; None means the process's own arguments.
    """
    return running.run("mqclient", lambda: invoke(cli, "mqclient", arguments), failure_of)

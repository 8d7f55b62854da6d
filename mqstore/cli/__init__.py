"""The command `mqstore`: look into a store directory, live or dead, and mend a dead one.

Exit codes: 0 all is well, 1 failed, 2 wrong usage, 5 damage found.
"""

from __future__ import annotations

from collections.abc import Sequence

from mqstore.commands.shortage import telling_shortage

with telling_shortage("mqstore"):
    import click

    from mqstore.commands import exit_codes, running
    from mqstore.commands.groups import LazyGroup, Listed, invoke
    from mqstore.errors import DecodeError, StoreDamaged, StoreError

__all__ = ["main"]

COMMANDS = {
    "dump": Listed(
        "mqstore.cli.dump", "Write the messages, chosen by place, time, topic, tag, key or id."
    ),
    "export": Listed("mqstore.cli.export", "Write messages to a file: JSON lines, CSV or Parquet."),
    "ls": Listed("mqstore.cli.ls", "List the consume queues."),
    "rebuild": Listed("mqstore.cli.mend", "Make queues, index and checkpoint anew from the log."),
    "repair": Listed("mqstore.cli.mend", "Heal a damaged log; make queues and index anew."),
    "stat": Listed("mqstore.cli.stat", "Say what it is: condition, sizes, extent, how to open it."),
    "verify": Listed("mqstore.cli.verify", "Check log, queues, index, checkpoint and offsets."),
}


@click.group(
    cls=LazyGroup, listed=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="mqstack", message="%(prog)s %(version)s")
def cli() -> None:
    """Look into a RocketMQ store directory, live or dead; only repair and rebuild write one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.

    arguments: without the program's name; None takes those of the process.
    """
    return running.run("mqstore", lambda: invoke(cli, "mqstore", arguments), _judge)


def _judge(error: Exception) -> running.Failure | None:
    if isinstance(error, StoreDamaged):
        return running.Failure(str(error), exit_codes.DAMAGED)
    if isinstance(error, StoreError | DecodeError) and not isinstance(error, OSError):
        return running.Failure(str(error))
    return running.failure_of(error)

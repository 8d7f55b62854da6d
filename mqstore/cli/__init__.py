"""The command `mqstore`: read the store directory of a broker, and repair it offline.

Exit codes: 0 success, 1 failed, 2 wrong usage, 5 damage found.
"""

from __future__ import annotations

from collections.abc import Sequence

from mqcommon.cli.shortage import telling_shortage

with telling_shortage("mqstore"):
    import click

    from mqcommon.cli import exit_codes, running
    from mqcommon.cli.groups import LazyGroup, Listed, invoke
    from mqstore.errors import DecodeError, StoreDamaged, StoreError

__all__ = ["main"]

COMMANDS = {
    "cut": Listed("mqstore.cli.repair", "End the log at an offset; rebuild queues and index."),
    "dump": Listed(
        "mqstore.cli.dump", "Print messages, selected by offset, time, topic, tag, key or id."
    ),
    "export": Listed("mqstore.cli.export", "Write messages to a file: JSON lines, CSV or Parquet."),
    "ls": Listed("mqstore.cli.ls", "List the consume queues."),
    "rebuild": Listed("mqstore.cli.repair", "Rebuild queues, index and checkpoint from the log."),
    "repair": Listed("mqstore.cli.repair", "Repair a damaged log; rebuild queues and index."),
    "stat": Listed("mqstore.cli.stat", "Show a summary: condition, sizes, extent, settings."),
    "verify": Listed("mqstore.cli.verify", "Check log, queues, index, checkpoint and offsets."),
}


@click.group(
    cls=LazyGroup, listed=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="mqstack", message="%(prog)s %(version)s")
def cli() -> None:
    """Read a RocketMQ store directory, also of a running broker; repair and rebuild write one."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.

    arguments: the command line without the program's name; None for `sys.argv`.
    """
    return running.run("mqstore", lambda: invoke(cli, "mqstore", arguments), _judge)


def _judge(error: Exception) -> running.Failure | None:
    if isinstance(error, StoreDamaged):
        return running.Failure(str(error), exit_codes.DAMAGED)
    if isinstance(error, StoreError | DecodeError) and not isinstance(error, OSError):
        return running.Failure(str(error))
    return running.failure_of(error)

"""The command group of the jobs, and their exit codes."""

from __future__ import annotations

from collections.abc import Sequence

import click

from mqclient.cli.failures import failure_of
from mqcommon.cli import exit_codes, running
from mqcommon.cli.groups import LazyGroup, Listed, invoke
from mqpipeline.errors import PipelineError, UsageError
from mqstore.errors import StoreDamaged, StoreError

__all__ = ["cli", "main"]

COMMANDS = {
    "audit": Listed(
        "mqpipeline.cli.audit",
        "Find gaps and repeated messages in topics, and report delays.",
    ),
    "compact": Listed("mqpipeline.cli.compact", "Merge the small files of a lake."),
    "dlq": Listed("mqpipeline.cli.dlq", "Report the messages in dead-letter topics."),
    "recover": Listed(
        "mqpipeline.cli.recover", "Write the messages of store directories to a lake."
    ),
    "replay": Listed("mqpipeline.cli.replay", "Send messages of a lake to a topic again."),
    "to-lake": Listed("mqpipeline.cli.to_lake", "Write new messages of topics to a lake, once."),
}


@click.group(
    cls=LazyGroup, listed=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(package_name="mqstack", message="%(prog)s %(version)s")
def cli() -> None:
    """Copy topics to a lake of Parquet files and back, with Spark."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code.

    arguments: the command line without the program's name; None for `sys.argv`.
    """
    return running.run("mqpipeline", lambda: invoke(cli, "mqpipeline", arguments), _judge)


EXTRA = ("pyarrow", "pygal")
"""Packages of the extra `pipeline`."""


def _judge(error: Exception) -> running.Failure | None:
    missing = (error.name or "").partition(".")[0] if isinstance(error, ImportError) else ""
    if missing in EXTRA:
        return running.Failure(f"the jobs need {missing}: pip install 'mqstack[pipeline]'")
    if isinstance(error, UsageError):
        return running.Failure(str(error), exit_codes.USAGE)
    if isinstance(error, StoreDamaged):
        return running.Failure(str(error), exit_codes.DAMAGED)
    if isinstance(error, PipelineError | StoreError):
        return running.Failure(str(error))
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        return running.Failure(_cause(str(error)))
    return failure_of(error)


def _cause(text: str) -> str:
    """The error line of the Python traceback in Spark's error text; without one, its first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    ends = (at for at, line in enumerate(lines) if line.startswith("Traceback (most recent"))
    for at in reversed(list(ends)):
        for line in lines[at + 1 :]:
            kind, colon, said = line.partition(": ")
            is_error = kind.replace(".", "").replace("_", "").isalnum() and kind[:1].isalpha()
            if colon and is_error and not line.startswith("File "):
                return said
    return lines[0] if lines else "Spark failed without an error message"

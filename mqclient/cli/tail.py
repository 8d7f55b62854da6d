"""`mqclient tail`."""

from typing import Any

import click

from mqclient.cli.connection import run_async
from mqclient.cli.reading import read_topic, reading_of, reading_options

__all__ = ["tail"]


@click.command()
@reading_options("start of the reading: earliest, latest or a time")
def tail(**options: Any) -> int:
    """Print TOPIC's messages as they arrive, from all its queues, until Ctrl-C.

    Joins no group and commits nothing.
    """
    reading, handling = reading_of(options)
    return run_async(read_topic(reading, handling, None))

"""`mqclient consume`."""

from typing import Any

import click

from mqclient.cli.connection import run_async
from mqclient.cli.reading import read_topic, reading_of, reading_options

__all__ = ["consume"]


@click.command()
@click.option("-g", "--group", required=True, help="consumer group")
@reading_options("start of queues without a committed offset: earliest, latest or a time")
def consume(group: str, **options: Any) -> int:
    """Print TOPIC's messages, or run a command for each, as a member of a group.

    The members share the queues. The offsets of handled messages are committed every 5 seconds
    and at the end, so a message may come twice after a crash. With --queue, the command reads
    these queues even if another member reads them.
    """
    reading, handling = reading_of(options)
    return run_async(read_topic(reading, handling, group))

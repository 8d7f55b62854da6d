"""`mqclient tail`."""

import sys
from collections.abc import Callable
from datetime import datetime
from typing import Any, Literal

import click

from mqclient.aio import LitePullConsumer
from mqclient.commands.connection import connection_options, run_async
from mqclient.config import Credentials
from mqclient.tls import Tls
from mqstore.commands.moments import read_moment
from mqstore.commands.output import chosen_format, output_option, write_rows
from mqstore.message import ReceivedMessage
from mqstore.offline.rows import message_row

__all__ = ["tail"]

COLUMNS = ("storeTime", "queueId", "queueOffset", "tags", "keys", "body")


@click.command()
@click.argument("topic")
@click.option(
    "--from",
    "start",
    callback=lambda _context, _option, text: _start(text),
    default="latest",
    show_default=True,
    help="where to begin: earliest, latest or a time",
)
@click.option("--tags", default="*", help="only these: 'TagA || TagB'")
@click.option("--count", type=click.IntRange(1), help="end after this many messages")
@click.option(
    "--body",
    type=click.Choice(["text", "hex", "base64", "none"]),
    default="text",
    show_default=True,
    help="how to write bodies",
)
@connection_options
@output_option
def tail(
    topic: str,
    start: Literal["earliest", "latest"] | datetime,
    tags: str,
    count: int | None,
    body: str,
    namesrv: str | None,
    address_map: dict[str, str],
    credentials: Credentials,
    tls: Tls | None,
    output: str | None,
) -> int:
    """Print TOPIC's messages as they come, from all its queues, until Ctrl-C.

    Joins no group and commits nothing.
    """
    consumer = LitePullConsumer(
        None, namesrv, consume_from=start, address_map=address_map, tls=tls, **credentials
    )
    write, finish = _writer(chosen_format(output), body)
    try:
        return run_async(_tail(consumer, topic, tags, count, write))
    finally:
        finish()


def _start(text: str) -> str | datetime:
    if text in ("earliest", "latest"):
        return text
    try:
        return read_moment(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}, earliest or latest") from None


async def _tail(
    consumer: LitePullConsumer,
    topic: str,
    tags: str,
    count: int | None,
    write: Callable[[ReceivedMessage], None],
) -> int:
    seen = 0
    async with consumer:
        consumer.assign(await consumer.queues(topic), tags)
        async for message in consumer:
            write(message)
            seen += 1
            if seen == count:
                break
    return 0


def _writer(output: str, body: str) -> tuple[Callable[[ReceivedMessage], None], Callable[[], None]]:
    """How to write one message, and what is left for the end (json and csv are one document)."""
    if output in ("json", "csv"):
        rows: list[dict[str, Any]] = []
        return (
            lambda message: rows.append(message_row(message, body)),
            lambda: write_rows(rows, COLUMNS, output),
        )

    def at_once(message: ReceivedMessage) -> None:
        row = message_row(message, body)
        if output == "jsonl":
            write_rows([row], COLUMNS, "jsonl")
        else:
            click.echo(_line(row))
        sys.stdout.flush()

    return at_once, lambda: None


def _line(row: dict[str, Any]) -> str:
    """A table's row whose widths do not depend on rows to come."""
    return (
        f"{row['storeTime']}  {row['queueId']:>3} {row['queueOffset']:>8}  "
        f"{row['tags'] or '':<12} {row['keys'] or '':<16} {row.get('body', '')}"
    )

"""`mqclient request`."""

import sys
from typing import Any

import click

from mqclient.aio import Message, Producer
from mqclient.cli.connection import connection_of, connection_options, run_async
from mqclient.cli.message_options import message_of, message_options
from mqclient.cli.message_output import (
    MessageOutput,
    message_output_options,
    output_of,
    writer_of,
)
from mqcommon.cli.options import topic_option
from mqcommon.cli.running import refusing_arguments

__all__ = ["request"]


@click.command()
@click.argument("words", metavar="TOPIC BODY", nargs=-1, required=True)
@topic_option("the same as TOPIC; the only argument is then BODY", argument="named")
@message_options
@message_output_options
@connection_options
def request(words: tuple[str, ...], named: str | None, **fields: Any) -> int:
    """Send BODY to TOPIC, wait for a consumer's reply, and print it.

    The consumer makes its reply with mqclient.reply. Without a reply within --timeout seconds the
    exit code is 3.
    """
    parts = words if named is None else (named, *words)
    if len(parts) != 2:
        raise click.UsageError("give a TOPIC and one BODY")
    options = {**connection_of(fields), "timeout": fields.pop("timeout")}
    output = output_of(fields)
    with refusing_arguments():
        message = message_of(parts[0], fields, parts[1].encode())
    return run_async(_request(message, options, output))


async def _request(message: Message, options: dict[str, Any], output: MessageOutput) -> int:
    writer = writer_of(output)
    with refusing_arguments():
        producer = Producer(**options)
    async with producer:
        with refusing_arguments():
            writer.write(await producer.request(message))
    writer.finish()
    sys.stdout.flush()
    return 0

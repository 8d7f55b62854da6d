"""`mqclient send`."""

import asyncio
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import click

from mqclient.aio import Message, Producer, SendResult
from mqclient.cli.options import connection_options, run_async
from mqclient.cli.send_file import Resend, send_file
from mqclient.config import Credentials
from mqclient.tls import Tls
from mqstore.cli.output import chosen_format, output_option, write_rows

__all__ = ["send"]

IN_FLIGHT_MAX = 64
"""Lines of standard input that are sent before the first answer is awaited."""
COLUMNS = ("status", "msgId", "offsetMsgId", "topic", "brokerName", "queueId", "queueOffset")


@click.command()
@click.argument("topic", required=False)
@click.argument("bodies", nargs=-1)
@click.option(
    "--from",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="send what `mqstore export` wrote",
)
@click.option("--keep-queue", is_flag=True, help="with --from: to the queue id it had")
@click.option("--skip", type=click.IntRange(0), default=0, help="with --from: go on behind these")
@click.option("--count", type=click.IntRange(0), help="with --from: at most so many")
@click.option("--tags", help="the messages' tag")
@click.option("--keys", multiple=True, help="an index key; may be repeated")
@click.option(
    "--property", "properties", multiple=True, metavar="NAME=VALUE", help="may be repeated"
)
@click.option("--delay-level", type=click.IntRange(0), default=0, help="1 (1 s) to 18 (2 h)")
@click.option("--timeout", type=float, default=3.0, show_default=True, help="seconds, each send")
@connection_options
@output_option
def send(
    topic: str | None,
    bodies: tuple[str, ...],
    namesrv: str | None,
    address_map: dict[str, str],
    credentials: Credentials,
    tls: Tls | None,
    timeout: float,
    output: str | None,
    **fields: Any,
) -> int:
    """Send BODIES to TOPIC, a message each; without any, the lines of standard input.

    With --from, the messages of a file that mqstore export wrote, with the unique key, born
    time, tag, keys and properties they had; to the topic they had unless TOPIC is given.
    """
    options = {"address_map": address_map, "timeout": timeout, "tls": tls, **credentials}
    if fields["file"] is not None:
        plan = _resend(topic, bodies, fields, namesrv, options)
        return run_async(send_file(plan, output))
    if topic is None:
        raise click.UsageError("name a TOPIC, or a file: mqclient send --from FILE")
    for option in ("keep_queue", "skip", "count"):
        if fields[option]:
            raise click.UsageError(f"--{option.replace('_', '-')} goes with --from only")
    message = partial(_message, topic, fields)
    lines: Iterable[bytes] = [body.encode() for body in bodies] or _lines()
    return run_async(_send(message, lines, namesrv, options, output))


def _resend(
    topic: str | None,
    bodies: tuple[str, ...],
    fields: dict[str, Any],
    namesrv: str | None,
    options: dict[str, Any],
) -> Resend:
    """What --from asks for; the messages are as they are in the file."""
    given = [name for name in ("tags", "keys", "properties", "delay_level") if fields[name]]
    if bodies or given:
        raise click.UsageError("--from sends messages as they are: no BODIES, tags, keys, ...")
    return Resend(
        path=fields["file"],
        topic=topic,
        keep_queue=fields["keep_queue"],
        skip=fields["skip"],
        count=fields["count"],
        namesrv=namesrv,
        options=options,
    )


def _message(topic: str, fields: dict[str, Any], body: bytes) -> Message:
    properties = dict(_pair(text) for text in fields["properties"])
    return Message(
        topic,
        body,
        tags=fields["tags"],
        keys=list(fields["keys"]) or None,
        properties=properties,
        delay_level=fields["delay_level"],
    )


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"--property {text!r} must be NAME=VALUE")
    return name, value


def _lines() -> Iterator[bytes]:
    """Lines of standard input without their ends; empty ones are skipped."""
    for line in sys.stdin.buffer:
        body = line.rstrip(b"\r\n")
        if body:
            yield body


async def _send(
    message: Callable[[bytes], Message],
    bodies: Iterable[bytes],
    namesrv: str | None,
    options: dict[str, Any],
    output: str | None,
) -> int:
    """Send with a window; answers are written in the order of the messages.

    options: arguments of the producer.
    """
    rows: list[dict[str, Any]] = []
    at_once = chosen_format(output) == "jsonl"
    under_way: deque[asyncio.Task[SendResult]] = deque()

    async def answer() -> None:
        row = _row(await under_way.popleft())
        if at_once:
            write_rows([row], COLUMNS, "jsonl")
        else:
            rows.append(row)

    async with Producer(namesrv, **options) as producer:
        try:
            for body in bodies:
                under_way.append(asyncio.ensure_future(producer.send(message(body))))
                if len(under_way) >= IN_FLIGHT_MAX:
                    await answer()
            while under_way:
                await answer()
        finally:
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)
            if rows:
                write_rows(rows, COLUMNS, output)
    return 0


def _row(result: SendResult) -> dict[str, Any]:
    queue = result.message_queue
    return {
        "status": str(result.status),
        "msgId": result.msg_id,
        "offsetMsgId": result.offset_msg_id,
        "topic": queue.topic,
        "brokerName": queue.broker_name,
        "queueId": queue.queue_id,
        "queueOffset": result.queue_offset,
    }

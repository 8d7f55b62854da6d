"""`mqclient send`."""

import asyncio
import signal
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from mqclient.aio import Message, Producer, SendResult
from mqclient.cli.lines import Lines
from mqclient.cli.send_file import Resend, send_file
from mqclient.commands.connection import connection_options, run_async
from mqclient.config import Credentials
from mqclient.signals import catching_signals
from mqclient.tls import Tls
from mqstore.commands.output import chosen_format, output_option, write_rows
from mqstore.offline.formats import FORMATS

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
@click.option("--count", type=click.IntRange(0), help="with --from: send at most this many")
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

    A line is sent as soon as it is read. Ctrl-C or SIGTERM ends the reading: what was read is
    sent, and the exit code is 130 or 143.

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
    given = [body.encode() for body in bodies]
    return run_async(_send(message, given, namesrv, options, output))


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
    if not fields["file"].name.endswith(tuple(f".{name}" for name in FORMATS)):
        ends = ", ".join(f".{name}" for name in FORMATS)
        raise click.UsageError(f"--from {fields['file']}: its name must end in one of {ends}")
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


async def _send(
    message: Callable[[bytes], Message],
    bodies: list[bytes],
    namesrv: str | None,
    options: dict[str, Any],
    output: str | None,
) -> int:
    """Send the bodies, or the lines of standard input. Returns the exit code.

    options: arguments of the producer. A signal ends the reading: what was read is still sent, and
    the exit code is 128 and the signal's number.
    """
    loop = asyncio.get_running_loop()
    signals: list[int] = []
    lines = None if bodies else Lines()

    def end(number: int) -> None:
        signals.append(number)
        if lines is not None:
            loop.call_soon_threadsafe(lines.stop)

    with catching_signals(end):
        async with Producer(namesrv, **options) as producer:
            sending = _Sending(producer, message, output)
            sent = await sending.run(lines.batches() if lines else _given(bodies))
    if not signals:
        return 0
    name = signal.Signals(signals[0]).name
    click.echo(f"mqclient: stopped by {name}; all {sent} messages it read are sent", err=True)
    return 128 + signals[0]


async def _given(bodies: list[bytes]) -> AsyncIterator[list[bytes]]:
    yield bodies


class _Sending:
    """Sends with a window; answers are written in the order of the messages."""

    def __init__(
        self, producer: Producer, message: Callable[[bytes], Message], output: str | None
    ) -> None:
        self._producer, self._message, self._output = producer, message, output
        self._at_once = chosen_format(output) == "jsonl"
        self._rows: list[dict[str, Any]] = []
        self._under_way: asyncio.Queue[asyncio.Task[SendResult] | None] = asyncio.Queue()
        self._room = asyncio.Semaphore(IN_FLIGHT_MAX)

    async def run(self, batches: AsyncIterator[list[bytes]]) -> int:
        """Send all that comes; returns how many. Raises what the first failed send does."""
        feeding = asyncio.create_task(self._feed(batches))
        try:
            sent = await self._answers()
            await feeding
            return sent
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            await self._cancel_rest()
            if self._rows:
                write_rows(self._rows, COLUMNS, self._output)

    async def _feed(self, batches: AsyncIterator[list[bytes]]) -> None:
        try:
            async for bodies in batches:
                for body in bodies:
                    await self._room.acquire()
                    sending = self._producer.send(self._message(body))
                    self._under_way.put_nowait(asyncio.ensure_future(sending))
        finally:
            self._under_way.put_nowait(None)

    async def _answers(self) -> int:
        """Await and write every answer, as soon as it is there; returns how many."""
        count = 0
        while (task := await self._under_way.get()) is not None:
            try:
                row = _row(await task)
            finally:
                task.cancel()
            self._room.release()
            count += 1
            if self._at_once:
                write_rows([row], COLUMNS, "jsonl")
            else:
                self._rows.append(row)
        return count

    async def _cancel_rest(self) -> None:
        tasks = []
        while not self._under_way.empty():
            if (task := self._under_way.get_nowait()) is not None:
                task.cancel()
                tasks.append(task)
        await asyncio.gather(*tasks, return_exceptions=True)


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

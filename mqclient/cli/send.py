"""`mqclient send`."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import click

from mqclient.aio import Message, Producer, SendResult
from mqclient.cli.connection import connection_of, connection_options, run_async
from mqclient.cli.lines import Lines
from mqclient.cli.message_options import message_of, message_options
from mqclient.cli.send_file import Resend, send_file
from mqclient.cli.send_row import send_row
from mqcommon.cli.options import topic_option
from mqcommon.cli.output import chosen_format, output_option, write_rows
from mqcommon.cli.running import drop_output, refusing_arguments
from mqcommon.export_formats import FORMATS
from mqcommon.signals import catching_signals

__all__ = ["send"]

IN_FLIGHT_MAX = 64
"""Lines of standard input that are sent before the first answer is awaited."""
COLUMNS = ("status", "msgId", "offsetMsgId", "topic", "brokerName", "queueId", "queueOffset")


@click.command()
@click.argument("topic", required=False)
@click.argument("bodies", nargs=-1)
@topic_option("the same as TOPIC; all arguments are then BODIES", argument="named")
@click.option(
    "--file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="send the messages of a file of mqstore export or mqadmin messages export",
)
@click.option("--keep-queue", is_flag=True, help="with --file: send to the original queue ids")
@click.option(
    "--skip",
    type=click.IntRange(0),
    default=0,
    help="with --file: skip this many messages at the start",
)
@click.option("--count", type=click.IntRange(0), help="with --file: send at most this many")
@message_options
@connection_options
@output_option
def send(
    topic: str | None, bodies: tuple[str, ...], named: str | None, output: str | None, **fields: Any
) -> int:
    """Send each of BODIES to TOPIC as a message; without BODIES, send the lines of standard input.

    A line is sent as soon as it is read. After Ctrl-C or SIGTERM no more lines are read; the lines
    read so far are sent, and the exit code is 130 or 143.

    With --file, send the messages of a file that mqstore export or mqadmin messages export wrote,
    with their unique keys, born times, tags, keys and properties, to TOPIC or else to their
    original topics.
    """
    if named is not None:
        bodies, topic = bodies if topic is None else (topic, *bodies), named
    options = {**connection_of(fields), "timeout": fields.pop("timeout")}
    if fields["file"] is not None:
        return run_async(send_file(_resend(topic, bodies, fields), options, output))
    if topic is None:
        raise click.UsageError("name a TOPIC, or a file: mqclient send --file FILE")
    for option in ("keep_queue", "skip", "count"):
        if fields[option]:
            raise click.UsageError(f"--{option.replace('_', '-')} goes with --file only")
    message = partial(message_of, topic, fields)
    return run_async(_send(message, [body.encode() for body in bodies], options, output))


def _resend(topic: str | None, bodies: tuple[str, ...], fields: dict[str, Any]) -> Resend:
    """The arguments of --file; the messages are sent as they are in the file."""
    given = [name for name in ("tags", "keys", "properties", "delay_level") if fields[name]]
    if bodies or given:
        raise click.UsageError("--file sends messages as they are: no BODIES, tags, keys, ...")
    if not fields["file"].name.endswith(tuple(f".{name}" for name in FORMATS)):
        ends = ", ".join(f".{name}" for name in FORMATS)
        raise click.UsageError(f"--file {fields['file']}: its name must end in one of {ends}")
    return Resend(
        path=fields["file"],
        topic=topic,
        keep_queue=fields["keep_queue"],
        skip=fields["skip"],
        count=fields["count"],
    )


async def _send(
    message: Callable[[bytes], Message],
    bodies: list[bytes],
    options: dict[str, Any],
    output: str | None,
) -> int:
    """Send the bodies, or the lines of standard input. Returns the exit code.

    options: arguments of the producer. A signal ends the reading: lines read so far are still sent,
    and the exit code is 128 plus the signal's number.
    """
    loop = asyncio.get_running_loop()
    signals: list[int] = []
    lines = None if bodies else Lines()

    def end(number: int) -> None:
        signals.append(number)
        if lines is not None:
            loop.call_soon_threadsafe(lines.stop)

    with catching_signals(end):
        with refusing_arguments():
            new = Producer(**options)
        async with new as producer:
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
        """Send all batches; returns the number of messages. Raises the error of a failed send."""
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
                self._write(self._rows, self._output)

    async def _feed(self, batches: AsyncIterator[list[bytes]]) -> None:
        try:
            async for bodies in batches:
                for body in bodies:
                    await self._room.acquire()
                    with refusing_arguments():
                        sending = self._producer.send(self._message(body))
                    self._under_way.put_nowait(asyncio.ensure_future(sending))
        finally:
            self._under_way.put_nowait(None)

    async def _answers(self) -> int:
        """Write every answer as soon as it arrives; returns the number of answers."""
        count = 0
        while (task := await self._under_way.get()) is not None:
            try:
                with refusing_arguments():
                    row = send_row(await task)
            finally:
                task.cancel()
            self._room.release()
            count += 1
            if self._at_once:
                self._write([row], "jsonl")
            else:
                self._rows.append(row)
        return count

    def _write(self, rows: list[dict[str, Any]], output: str | None) -> None:
        """Write results; if the reader of the output has gone, sending continues without."""
        try:
            write_rows(rows, COLUMNS, output)
            sys.stdout.flush()
        except BrokenPipeError:
            drop_output()

    async def _cancel_rest(self) -> None:
        tasks = []
        while not self._under_way.empty():
            if (task := self._under_way.get_nowait()) is not None:
                task.cancel()
                tasks.append(task)
        await asyncio.gather(*tasks, return_exceptions=True)

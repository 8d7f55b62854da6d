"""`--exec`: a command for each message, several at a time."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from mqcommon.cli import exit_codes
from mqcommon.cli.options import all_options
from mqcommon.cli.running import CommandError
from mqcommon.message import DecodeError, MessageQueue, ReceivedMessage, queue_of

__all__ = ["Executing", "Execution", "execution_of", "execution_options"]

F = TypeVar("F", bound=Callable[..., Any])
JOBS_MAX = 256
AHEAD_MAX = 1024
"""Most messages started while an earlier one is not finished."""


@dataclass(frozen=True, slots=True)
class Execution:
    """The options of --exec. jobs: commands in parallel."""

    command: str
    jobs: int
    keep_going: bool


def execution_options(command: F) -> F:
    """-e/--exec, --jobs and --keep-going; `execution_of` reads them."""
    return all_options(
        click.option(
            "-e", "--exec", "command", metavar="COMMAND",
            help="run this in a shell for each message: the body is its standard input, "
            "MQ_TOPIC, MQ_TAGS, MQ_KEYS, MQ_MSG_ID, ... its environment",
        ),
        click.option(
            "-j", "--jobs", type=click.IntRange(1, JOBS_MAX), default=1, show_default=True,
            help="with --exec: commands to run in parallel; above 1, messages are out of order",
        ),
        click.option(
            "--keep-going", is_flag=True,
            help="with --exec: continue after a failed command, and exit with 1 at the end",
        ),
    )(command)  # fmt: skip


def execution_of(options: dict[str, Any]) -> Execution | None:
    """Take the options of `execution_options` out of a command's."""
    command, jobs, keep_going = (options.pop(name) for name in ("command", "jobs", "keep_going"))
    if command is None and (jobs > 1 or keep_going):
        raise click.UsageError("--jobs and --keep-going go with --exec only")
    return None if command is None else Execution(command, jobs, keep_going)


class Executing:
    """Runs the command for each message.

    A message is handled when its command succeeded, or failed under --keep-going.
    """

    def __init__(self, execution: Execution) -> None:
        self._execution = execution
        self._room = asyncio.Semaphore(execution.jobs)
        self._under_way: deque[tuple[MessageQueue, int, asyncio.Task[bool]]] = deque()
        self._failed = False
        self._handled: dict[MessageQueue, int] = {}

    @property
    def handled(self) -> dict[MessageQueue, int]:
        """By queue, the offset before which every message is handled."""
        while self._under_way:
            queue, offset, task = self._under_way[0]
            if not task.done() or task.cancelled():
                break
            if not task.result() and not self._execution.keep_going:
                break  # this message and all later ones are delivered again
            self._handled[queue] = offset + 1
            self._under_way.popleft()
        return self._handled

    async def handle(self, messages: list[ReceivedMessage]) -> None:
        """Start a command for each message; waits while `jobs` commands run.

        Raises CommandError after a command that failed.
        """
        for message in messages:
            await self._room.acquire()
            while len(self._under_way) >= AHEAD_MAX:
                await asyncio.wait([self._under_way[0][2]])
                self._check()
                _ = self.handled
            self._check()
            task = asyncio.create_task(self._run(message))
            self._under_way.append((queue_of(message), message.queue_offset, task))
            _ = self.handled  # drop the finished commands from the list
        self._check()

    async def finish(self, interrupted: bool) -> None:
        """Wait for the commands that run. Raises CommandError if any command failed."""
        running = sum(not task.done() for _, _, task in self._under_way)
        if interrupted and running:
            click.echo(
                f"mqclient: waiting for {running} commands; another signal ends them", err=True
            )
        await asyncio.gather(*(task for _, _, task in self._under_way))
        if self._failed:
            raise CommandError("the command failed for a message; see above", exit_codes.FAILED)

    def _check(self) -> None:
        if self._failed and not self._execution.keep_going:
            raise CommandError("the command failed for a message; see above", exit_codes.FAILED)

    async def _run(self, message: ReceivedMessage) -> bool:
        """Run the command to its end; whether it succeeded."""
        try:
            code = await self._exit_code(message)
            why = f"the command ended with {code}" if code else ""
        except (OSError, DecodeError) as error:
            why = f"the command could not be run: {error}"
        finally:
            self._room.release()
        if why:
            self._failed = True
            click.echo(
                f"mqclient: {why} for message {message.msg_id} (queue {message.queue_id}, offset "
                f"{message.queue_offset})",
                err=True,
            )
        return not why

    async def _exit_code(self, message: ReceivedMessage) -> int | None:
        body = message.body
        process = await asyncio.create_subprocess_shell(
            self._execution.command,
            stdin=PIPE,
            env=os.environ | _environment(message),
            start_new_session=True,  # Ctrl-C ends the reading, not what runs
        )
        try:
            await process.communicate(body)
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            raise
        return process.returncode


def _environment(message: ReceivedMessage) -> dict[str, str]:
    """A message's fields, without bytes that no environment may have."""
    fields = {
        "TOPIC": message.topic,
        "BROKER": message.broker_name,
        "QUEUE_ID": message.queue_id,
        "QUEUE_OFFSET": message.queue_offset,
        "MSG_ID": message.msg_id,
        "TAGS": message.tags or "",
        "KEYS": " ".join(message.keys),
        "STORE_TIMESTAMP_MS": message.store_timestamp_ms,
        "RECONSUME_TIMES": message.reconsume_times,
    }
    return {f"MQ_{name}": str(value).replace("\0", "") for name, value in fields.items()}

"""Shared code of `consume` and `tail`: the start, the end, and the commits."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import click

from mqclient.aio import Admin, LitePullConsumer
from mqclient.cli.connection import connection_of, connection_options
from mqclient.cli.executing import Executing, execution_of, execution_options
from mqclient.cli.message_output import (
    MessageWriter,
    message_output_options,
    output_of,
    writer_of,
)
from mqclient.engine.signals import run_until_signal
from mqcommon.cli.moments import Start
from mqcommon.cli.options import all_options, start_option, tags_option, topic_option
from mqcommon.cli.running import refusing_arguments
from mqcommon.message import MessageQueue, ReceivedMessage, queue_of

__all__ = ["Reading", "read_topic", "reading_of", "reading_options"]

F = TypeVar("F", bound=Callable[..., Any])
BATCH = 32
"""Most messages that one call requests."""
COMMIT_INTERVAL_S = 5.0
WAIT_S = 1.0
"""Longest wait of one call for messages."""
LAST_WAIT_S = 0.1
"""The same with --exit-at-end: an empty answer then means that the end is reached."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The values of `reading_options`."""

    topic: str
    tags: str
    start: Start
    queues: tuple[str, ...]
    offset: int | None
    count: int | None
    exit_at_end: bool
    connection: Mapping[str, Any]


class Handling(Protocol):
    """Does something with each message."""

    @property
    def handled(self) -> Mapping[MessageQueue, int]:
        """By queue, the offset before which every message is handled."""
        ...

    async def handle(self, messages: list[ReceivedMessage]) -> None:
        """Take messages, in order; returns when more may come."""
        ...

    async def finish(self, interrupted: bool) -> None:
        """Wait for the commands that run. interrupted: a signal ended the reading."""
        ...


def reading_options(starting: str) -> Callable[[F], F]:
    """TOPIC and the options that `reading_of` reads. starting: the help of --from."""
    return all_options(
        click.argument("topic", required=False),
        topic_option("the same as TOPIC", argument="named"),
        tags_option(default="*"),
        start_option(starting),
        click.option(
            "--queue", "queues", multiple=True, metavar="[BROKER:]ID",
            help="read only this queue; may be repeated",
        ),
        click.option(
            "--offset", type=int,
            help="start at this queue offset; -10 means 10 before the end (needs --queue)",
        ),
        click.option("--count", type=click.IntRange(1), help="stop after this many messages"),
        click.option(
            "-E", "--exit-at-end", is_flag=True,
            help="stop at the last message that existed when the command started",
        ),
        message_output_options,
        execution_options,
        connection_options,
    )  # fmt: skip


def topic_of(topic: str | None, named: str | None) -> str:
    """The topic, which is an argument or the value of --topic."""
    if topic is not None and named is not None:
        raise click.UsageError(f"the topic is given twice: {topic} and --topic {named}")
    if topic is None and named is None:
        raise click.UsageError("name a TOPIC")
    return topic or named or ""


def reading_of(options: dict[str, Any]) -> tuple[Reading, Handling]:
    """Move the options of `reading_options` out of a command's; its own options remain."""
    chosen = output_of(options)
    command = execution_of(options)
    if command is not None and (chosen.form is not None or chosen.output is not None):
        raise click.UsageError("with --exec, the command writes: leave out -f and --output")
    names = ("tags", "start", "queues", "offset", "count", "exit_at_end")
    reading = Reading(
        topic=topic_of(options.pop("topic"), options.pop("named")),
        connection=connection_of(options),
        **{name: options.pop(name) for name in names},
    )
    if reading.offset is not None and not reading.queues:
        raise click.UsageError("--offset needs --queue: every queue has offsets of its own")
    return reading, Printing(writer_of(chosen)) if command is None else Executing(command)


class Printing:
    """Writes messages to standard output."""

    def __init__(self, writer: MessageWriter) -> None:
        self._writer = writer
        self.handled: dict[MessageQueue, int] = {}

    async def handle(self, messages: list[ReceivedMessage]) -> None:
        """Write messages, and flush the output."""
        for message in messages:
            self._writer.write(message)
        sys.stdout.flush()
        self.handled |= {queue_of(message): message.queue_offset + 1 for message in messages}

    async def finish(self, interrupted: bool) -> None:
        """End the document."""
        self._writer.finish()


async def read_topic(reading: Reading, handling: Handling, group: str | None) -> int:
    """Read, handle and, in a group, commit, until an end or a signal. Returns the exit code."""
    with refusing_arguments():
        consumer = LitePullConsumer(
            group, consume_from=reading.start, commit_interval=None, **reading.connection
        )
    async with consumer:
        reader = _Reader(consumer, reading, handling, group)
        return await run_until_signal(reader.run(), handling.finish, reader.commit)


class _Reader:
    """One run over a topic."""

    def __init__(
        self, consumer: LitePullConsumer, reading: Reading, handling: Handling, group: str | None
    ) -> None:
        self._consumer, self._reading, self._handling = consumer, reading, handling
        self._commits = group is not None
        self._committed: dict[MessageQueue, int] = {}
        self._lost: set[MessageQueue] = set()
        self._delivered: dict[MessageQueue, int] = {}
        self._ends: dict[MessageQueue, int] = {}
        self._assigns = group is None or bool(reading.queues)

    async def run(self) -> None:
        """Read until the end that the options name."""
        reading, consumer = self._reading, self._consumer
        queues = await self._begin()
        async with Admin(**reading.connection) as admin:
            if reading.offset is not None:
                for queue in queues:
                    with refusing_arguments():
                        await consumer.seek(queue, await _offset(admin, queue, reading.offset))
            if reading.exit_at_end:
                self._ends = {queue: await admin.offsets.maximum(queue) for queue in queues}
        wait = LAST_WAIT_S if reading.exit_at_end else WAIT_S
        left = reading.count
        due = time.monotonic() + COMMIT_INTERVAL_S
        while left is None or left > 0:
            messages = await consumer.poll(BATCH if left is None else min(BATCH, left), wait)
            self._delivered |= {queue_of(m): m.queue_offset + 1 for m in messages}
            if reading.exit_at_end:  # later messages stay for the next run
                ends = self._ends
                messages = [m for m in messages if m.queue_offset < ends.get(queue_of(m), 0)]
            await self._handling.handle(messages)
            left = None if left is None else left - len(messages)
            if time.monotonic() >= due:
                await self.commit()
                due = time.monotonic() + COMMIT_INTERVAL_S
            if reading.exit_at_end and await self._is_at_end():
                return

    async def _begin(self) -> list[MessageQueue]:
        """Join the group, or assign queues; returns the queues that may be read."""
        reading, consumer = self._reading, self._consumer
        queues = await consumer.queues(reading.topic)  # says what to do when there is no topic
        with refusing_arguments():
            if self._assigns:
                queues = _chosen(queues, reading.queues)
                consumer.assign(queues, reading.tags)
            else:
                consumer.on_rebalance(assigned=self._assigned, revoked=self._revoked)
                consumer.subscribe(reading.topic, reading.tags)
        await consumer.wait_assigned()
        return queues

    async def _assigned(self, queues: list[MessageQueue]) -> None:
        """Offsets that were handled before an earlier loss of the queues are old."""
        handled = self._handling.handled
        for queue in queues:
            self._lost.discard(queue)
            if queue in handled:
                self._committed[queue] = handled[queue]

    async def _revoked(self, queues: list[MessageQueue]) -> None:
        """Commit the handled messages of lost queues; from now on their next owner commits."""
        await self.commit()
        for queue in queues:
            self._lost.add(queue)
            self._delivered.pop(queue, None)

    async def commit(self) -> None:
        """Commit the offsets of handled messages to the brokers, in a group."""
        moved = {
            queue: offset
            for queue, offset in self._handling.handled.items()
            if queue not in self._lost and self._committed.get(queue) != offset
        }
        if self._commits and moved:
            await self._consumer.commit(moved)
            self._committed |= moved

    async def _is_at_end(self) -> bool:
        for queue in self._consumer.assignment():
            end = self._ends.get(queue)
            if end is None or self._delivered.get(queue, 0) >= end:
                continue
            if await self._consumer.position(queue) < end:
                return False
        return True


def _chosen(queues: list[MessageQueue], names: tuple[str, ...]) -> list[MessageQueue]:
    """The queues that --queue names: by id, or by broker and id."""
    known: dict[str, list[MessageQueue]] = {}
    for queue in queues:
        known.setdefault(str(queue.queue_id), []).append(queue)
        known.setdefault(f"{queue.broker_name}:{queue.queue_id}", []).append(queue)
    for name in names:
        if name not in known:
            there = ", ".join(sorted(f"{q.broker_name}:{q.queue_id}" for q in queues))
            raise ValueError(f"--queue {name}: the topic has no such queue; it has {there}")
    return sorted({queue for name in names for queue in known[name]}) if names else queues


async def _offset(admin: Admin, queue: MessageQueue, offset: int) -> int:
    """The offset that --offset means; a negative one counts from the end."""
    if offset >= 0:
        return offset
    low, high = await admin.offsets.minimum(queue), await admin.offsets.maximum(queue)
    return max(low, high + offset)

"""`mqclient send --file FILE`: exported messages, put into a running broker."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import click

from mqclient.aio import Producer, SendResult
from mqclient.cli.exported import ExportedMessage, read_export
from mqclient.producer.copies import copy_of
from mqcommon.cli.output import chosen_format, write_rows
from mqcommon.cli.progress import Report, progress
from mqcommon.cli.running import refusing_arguments
from mqcommon.message import MessageQueue

__all__ = ["COLUMNS", "Counts", "Resend", "resend", "send_file"]

IN_FLIGHT_MAX = 64
"""Messages that are sent before the first answer is awaited."""
COLUMNS = ("file", "read", "sent", "notDurable", "leftOut")


@dataclass(frozen=True, slots=True)
class Resend:
    """How an export is put back."""

    path: Path
    """The file."""
    topic: str | None
    """Topic for all messages; None keeps each message's original topic."""
    keep_queue: bool
    """Keep each message's queue id, instead of rotating over the queues."""
    skip: int
    """Number of messages to skip at the start."""
    count: int | None
    """Largest number of messages to send."""

    def messages(self, bar: Report | None) -> Iterator[ExportedMessage]:
        """The chosen messages of the file; a mistake in it is a usage error."""
        end = None if self.count is None else self.skip + self.count
        return islice(read_export(self.path, None, bar), self.skip, end)


@dataclass(slots=True)
class Counts:
    """Messages read, sent, stored less durably than the broker is set to, and left out."""

    read: int = 0
    sent: int = 0
    not_durable: int = 0
    left_out: int = 0
    failed_at: str = ""

    def row(self, plan: Resend) -> dict[str, object]:
        """The counts as a row of COLUMNS."""
        values = (str(plan.path), self.read, self.sent, self.not_durable, self.left_out)
        return dict(zip(COLUMNS, values, strict=True))


async def send_file(plan: Resend, options: dict[str, Any], output: str | None) -> int:
    """Send the messages of an export; writes how many. Returns the exit code.

    options: arguments of the producer.
    """
    with refusing_arguments():
        producer = Producer(**options)
    counts = await resend(plan, producer, "mqclient")
    if chosen_format(output) == "table":
        left_out = f", {counts.left_out} that RocketMQ keeps for itself left out"
        click.echo(f"{counts.sent} messages sent{left_out if counts.left_out else ''}")
    else:
        write_rows([counts.row(plan)], COLUMNS, output)
    return 0


async def resend(plan: Resend, producer: Producer, label: str) -> Counts:
    """Send the messages of an export, with a producer that starts and ends here.

    label: the command, for lines on standard error. If it ends early, it prints how to continue; a
    few messages may then be sent twice.
    """
    counts = Counts()
    try:
        # A mistake in the file, or in one of its messages, is a usage error.
        with progress() as bar, refusing_arguments():
            async with producer:
                await _Sending(producer, plan, counts).run(bar)
    except BaseException:
        done = plan.skip + counts.sent + counts.left_out
        place = f" at {plan.path}, {counts.failed_at}" if counts.failed_at else ""
        click.echo(
            f"{label}: stopped{place}; {counts.sent} messages are sent. To go on, repeat the "
            f"command with --skip {done}",
            err=True,
        )
        raise
    if counts.not_durable:
        click.echo(
            f"{label}: {counts.not_durable} messages are stored, but not yet as durably as the "
            "broker is set to (on its disk, or on a slave)",
            err=True,
        )
    return counts


class _Sending:
    """Sends with a window, so that messages of one queue arrive in the order of the file."""

    def __init__(self, producer: Producer, plan: Resend, counts: Counts) -> None:
        self._producer, self._plan, self._counts = producer, plan, counts
        self._under_way: deque[tuple[ExportedMessage, asyncio.Task[SendResult]]] = deque()
        self._queues: dict[tuple[str, int], MessageQueue] = {}

    async def run(self, bar: Report | None) -> None:
        try:
            for exported in self._plan.messages(bar):
                self._counts.read += 1
                await self._start(exported)
                if len(self._under_way) >= IN_FLIGHT_MAX:
                    await self._answer()
            while self._under_way:
                await self._answer()
        finally:
            tasks = [task for _, task in self._under_way]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self, exported: ExportedMessage) -> None:
        try:
            message, queue_id = copy_of(exported, self._plan.topic)
        except ValueError:
            self._counts.failed_at = exported.place
            raise
        if message is None:
            self._counts.left_out += 1
            return
        queue = await self._queue(message.topic, queue_id) if self._plan.keep_queue else None
        sending = self._producer.send(message, queue=queue)
        self._under_way.append((exported, asyncio.ensure_future(sending)))

    async def _queue(self, topic: str, queue_id: int) -> MessageQueue:
        """The queue with this id on the first broker that has one."""
        known = self._queues.get((topic, queue_id))
        if known is None:
            queues = sorted(await self._producer.queues(topic))
            known = next((queue for queue in queues if queue.queue_id == queue_id), None)
            if known is None:
                raise ValueError(
                    f"topic {topic!r} has no queue {queue_id}, which --keep-queue needs: give it "
                    f"more write queues (mqadmin updateTopic -w {queue_id + 1})"
                )
            self._queues[topic, queue_id] = known
        return known

    async def _answer(self) -> None:
        exported, task = self._under_way[0]
        try:
            result = await task
        except Exception:
            self._counts.failed_at = exported.place
            raise
        self._under_way.popleft()
        self._counts.sent += 1
        self._counts.not_durable += result.status != "SEND_OK"

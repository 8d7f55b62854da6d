"""How commands write messages: -f, --output and --body."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import click

from mqclient.cli.message_format import LETTERS, compile_format
from mqcommon.cli.options import all_options, read_by
from mqcommon.cli.output import RowStream, chosen_format, output_option, write_bytes
from mqcommon.message import ReceivedMessage
from mqcommon.message_row import BODIES, message_row

__all__ = [
    "MessageOutput",
    "MessageWriter",
    "message_output_options",
    "output_of",
    "writer_of",
]

F = TypeVar("F", bound=Callable[..., Any])
COLUMNS = ("storeTime", "queueId", "queueOffset", "tags", "keys", "body")

WIDTHS = {"storeTime": 29, "tags": 12, "keys": 16}


@dataclass(frozen=True, slots=True)
class MessageOutput:
    """The options of message output. form: -f; output: --output; body: --body."""

    form: Callable[[ReceivedMessage], bytes] | None
    output: str | None
    body: str


class MessageWriter(Protocol):
    """Writes messages to standard output."""

    def write(self, message: ReceivedMessage) -> None:
        """Write one message; it may stay in a buffer until the output is flushed."""
        ...

    def finish(self) -> None:
        """Write what ends the document."""
        ...


def message_output_options(command: F) -> F:
    """-f/--format, --output and --body; `output_of` reads them."""
    return all_options(
        click.option(
            "-f", "--format", "form", callback=read_by(compile_format), metavar="FORMAT",
            help=f"write messages like '%t %p %o %k %s\\n': {LETTERS}",
        ),
        output_option,
        click.option(
            "--body", type=click.Choice([*BODIES, "none"]), default="text", show_default=True,
            help="format of bodies with --output",
        ),
    )(command)  # fmt: skip


def output_of(options: dict[str, Any]) -> MessageOutput:
    """Take the options of `message_output_options` out of a command's."""
    chosen = MessageOutput(options.pop("form"), options.pop("output"), options.pop("body"))
    if chosen.form is not None and chosen.output is not None:
        raise click.UsageError("give -f or --output, not both: each sets the format of messages")
    return chosen


def writer_of(chosen: MessageOutput) -> MessageWriter:
    """The writer that the options ask for."""
    if chosen.form is not None:
        return _Formatted(chosen.form)
    return _Rows(chosen.body, chosen_format(chosen.output))


class _Formatted:
    def __init__(self, form: Callable[[ReceivedMessage], bytes]) -> None:
        self._form = form

    def write(self, message: ReceivedMessage) -> None:
        write_bytes(self._form(message))

    def finish(self) -> None:
        pass


class _Rows:
    def __init__(self, body: str, output: str) -> None:
        self._body = body
        self._rows = RowStream(COLUMNS, output, WIDTHS)

    def write(self, message: ReceivedMessage) -> None:
        self._rows.write(message_row(message, self._body))

    def finish(self) -> None:
        self._rows.finish()

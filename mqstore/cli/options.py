"""Options that several commands have: which store, and which of its messages."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

import click

from mqstore.commands.moments import read_milliseconds
from mqstore.offline import StoreReader, Wanted

__all__ = [
    "check_start",
    "check_stored_topic",
    "directory_argument",
    "filter_options",
    "wanted_of",
]

F = TypeVar("F", bound=Callable[..., Any])


def _milliseconds(
    _context: click.Context, _option: click.Parameter, text: str | None
) -> int | None:
    try:
        return None if text is None else read_milliseconds(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


def directory_argument(command: F) -> F:
    """The argument DIRECTORY."""
    return click.argument("directory", type=click.Path())(command)


def filter_options(command: F) -> F:
    """The options that choose messages; `wanted_of` reads them."""
    options = (
        click.option("--offset", type=int, help="start at this physical offset (of a record)"),
        click.option("--stop", type=int, help="end before this physical offset"),
        click.option(
            "--begin",
            callback=_milliseconds,
            metavar="TIME",
            help="only stored then or later: 2026-01-31T12:00 (UTC without a zone), or ms",
        ),
        click.option(
            "--end",
            callback=_milliseconds,
            metavar="TIME",
            help="only stored then or earlier",
        ),
        click.option("--count", type=click.IntRange(0), help="at most this many messages"),
        click.option("--topic", help="only this topic"),
        click.option("--queue", type=int, help="only this queue id"),
        click.option("--tag", help="only messages with this tag"),
    )
    for option in reversed(options):
        command = option(command)
    return command


def wanted_of(chosen: dict[str, Any], *, check_crc: bool = False) -> Wanted:
    """What the options of `filter_options` ask for; --offset and --count are not part of it."""
    return Wanted(
        stop=chosen["stop"],
        topic=chosen["topic"],
        queue_id=chosen["queue"],
        tag=chosen["tag"],
        begin_ms=chosen["begin"],
        end_ms=chosen["end"],
        check_crc=check_crc,
    )


def check_stored_topic(reader: StoreReader, topic: str | None) -> None:
    """Say so when --topic names none that the store has; the log decides, as queues may lag."""
    if topic is None:
        return
    names = sorted({queue.topic for queue in reader.queues()})
    if topic in names or any(reader.walk(None, Wanted(topic=topic), lambda _gap: None)):
        return
    near = get_close_matches(topic, names, 3)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise click.ClickException(
        f"the store has no topic {topic!r}; {hint}this lists them: mqstore ls {reader.path}"
    )


def check_start(reader: StoreReader, chosen: dict[str, Any]) -> int | None:
    """--offset, where a record must start; checks --begin and --end too."""
    if None not in (chosen["begin"], chosen["end"]) and chosen["begin"] > chosen["end"]:
        raise click.UsageError("--begin is later than --end")
    offset: int | None = chosen["offset"]
    if offset is not None and reader.message_at(offset) is None:
        raise click.ClickException(
            f"no record starts at offset {offset}; this lists them: mqstore dump {reader.path}"
        )
    return offset

"""Options that several commands have: which store, and which of its messages."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

import click

from mqstore.commands.moments import read_milliseconds
from mqstore.commands.options import (
    all_options,
    milliseconds_option,
    read_by,
    tags_option,
    topic_option,
)
from mqstore.offline import StoreReader, Wanted
from mqstore.spark_options import tag_names

__all__ = [
    "check_start",
    "check_stored_topic",
    "directory_argument",
    "filter_options",
    "wanted_of",
]

F = TypeVar("F", bound=Callable[..., Any])


def directory_argument(command: F) -> F:
    """The argument DIRECTORY."""
    return click.argument("directory", type=click.Path())(command)


def filter_options(command: F) -> F:
    """The options that choose messages; `wanted_of` reads them."""
    options = (
        click.option("--offset", type=int, help="start at this physical offset (of a record)"),
        click.option("--stop", type=int, help="end before this physical offset"),
        milliseconds_option(
            "--from", "begin",
            "only stored then or later: 2026-01-31T12:00 (UTC without a zone), -1h, or ms",
            "--begin",
        ),
        milliseconds_option("--until", "until", "only stored before"),
        click.option(
            "--end", "end", callback=read_by(read_milliseconds), hidden=True,
            help="only stored then or earlier",
        ),
        click.option("--count", type=click.IntRange(0), help="at most this many messages"),
        topic_option("only this topic"),
        click.option("--queue", type=int, help="only this queue id"),
        tags_option("--tag"),
    )  # fmt: skip
    return all_options(*options)(command)


def wanted_of(chosen: dict[str, Any], *, check_crc: bool = False) -> Wanted:
    """What the options of `filter_options` ask for; --offset and --count are not part of it."""
    return Wanted(
        stop=chosen["stop"],
        topic=chosen["topic"],
        queue_id=chosen["queue"],
        tag=None if tag_names(chosen["tags"]) is None else chosen["tags"],
        begin_ms=chosen["begin"],
        end_ms=_end_ms(chosen),
        check_crc=check_crc,
    )


def _end_ms(chosen: dict[str, Any]) -> int | None:
    """The last store time, of --until (before it) or the older --end (at it)."""
    until: int | None = chosen["until"]
    end: int | None = chosen["end"]
    return end if until is None else until - 1


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
    """--offset, where a record must start; checks --from and --until too."""
    begin, end = chosen["begin"], _end_ms(chosen)
    if begin is not None and end is not None and begin > end:
        raise click.UsageError("--from is later than --until")
    offset: int | None = chosen["offset"]
    if offset is not None and reader.message_at(offset) is None:
        raise click.ClickException(
            f"no record starts at offset {offset}; this lists them: mqstore dump {reader.path}"
        )
    return offset

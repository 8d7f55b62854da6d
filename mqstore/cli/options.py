"""Options shared by several commands, to select the store and its messages."""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any, TypeVar

import click

from mqcommon.cli.options import (
    all_options,
    milliseconds_option,
    tags_option,
    topic_option,
)
from mqcommon.names import tag_names
from mqstore.offline import StoreReader, Wanted

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
    """The options that select messages; `wanted_of` reads them."""
    options = (
        click.option("--offset", type=int, help="start at this physical offset (of a record)"),
        click.option("--stop", type=int, help="end before this physical offset"),
        milliseconds_option(
            "--from", "begin",
            "only messages stored at this time or later: 2026-01-31T12:00 (UTC without a zone), "
            "-1h, or ms",
        ),
        milliseconds_option("--until", "until", "only stored before"),
        click.option("--count", type=click.IntRange(0), help="at most this many messages"),
        topic_option("only this topic"),
        click.option("--queue", type=int, help="only this queue id"),
        tags_option(),
    )  # fmt: skip
    return all_options(*options)(command)


def wanted_of(chosen: dict[str, Any], *, check_crc: bool = False) -> Wanted:
    """The selection of the options of `filter_options`, except --offset and --count."""
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
    """The last store time: just before --until."""
    until: int | None = chosen["until"]
    return None if until is None else until - 1


def check_stored_topic(reader: StoreReader, topic: str | None) -> None:
    """Fail if the store has no such topic; looks at the log too, because queues may lag."""
    if topic is None:
        return
    names = sorted({queue.topic for queue in reader.queues()})
    if topic in names or any(reader.walk(None, Wanted(topic=topic), lambda _gap: None)):
        return
    near = get_close_matches(topic, names, 3)
    hint = f"did you mean {', '.join(near)}? " if near else ""
    raise click.ClickException(
        f"the store has no topic {topic!r}; {hint}to list topics: mqstore ls {reader.path}"
    )


def check_start(reader: StoreReader, chosen: dict[str, Any]) -> int | None:
    """The value of --offset, which must be the start of a record; also checks --from and
    --until."""
    begin, end = chosen["begin"], _end_ms(chosen)
    if begin is not None and end is not None and begin > end:
        raise click.UsageError("--from is later than --until")
    offset: int | None = chosen["offset"]
    if offset is not None and reader.message_at(offset) is None:
        raise click.ClickException(
            f"no record starts at offset {offset}; to list offsets: mqstore dump {reader.path}"
        )
    return offset

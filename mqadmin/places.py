"""Queues, offsets and times as our own commands take them."""

from __future__ import annotations

from datetime import datetime

from mqadmin.command import Arguments, Option, UsageError
from mqadmin.java_text import TIME_FORMAT, moment_of
from mqcommon.cli.moments import read_moment

__all__ = ["QUEUES", "TOPIC", "place_of", "queues_of", "time_of"]

TOPIC = Option("t", "topic", "Topic", required=True)
QUEUES = Option("q", "queues", "Only these queues: BROKER:ID, several by a comma")


def time_of(text: str) -> datetime:
    """A time: milliseconds since 1970, a date and time, local unless it has a time zone, or a time
    before now: -30s, -5m, -1h, -7d. Raises UsageError.
    """
    if text.isdecimal():
        return moment_of(int(text))
    try:
        return datetime.fromisoformat(text).astimezone()
    except ValueError:
        pass
    try:
        return datetime.strptime(text, TIME_FORMAT).astimezone()
    except ValueError:
        pass
    try:
        return read_moment(text)
    except ValueError:
        raise UsageError(
            f"{text!r} is not a time: give milliseconds since 1970, or 2026-11-27T10:00:00, "
            "with Z or +01:00 for a time zone, or -1h for an hour ago"
        ) from None


def queues_of(arguments: Arguments) -> set[tuple[str, int]] | None:
    """The queues of --queues, None if it is not given."""
    text = arguments.text("queues")
    if not text:
        return None
    found = set()
    for part in text.split(","):
        name, _, queue_id = part.strip().rpartition(":")
        if not name or not queue_id.isdecimal():
            raise UsageError(f"--queues: {part.strip()!r} is not BROKER:ID, like broker-a:0")
        found.add((name, int(queue_id)))
    return found


def place_of(text: str) -> tuple[str, int, int]:
    """The broker name, queue and offset of a place; raises UsageError."""
    name, queue_id, offset = ["", "", *text.rsplit(":", 2)][-3:]
    if not name or not queue_id.isdecimal() or not offset.isdecimal():
        raise UsageError(f"--from: {text!r} is not BROKER:ID:OFFSET, like broker-a:0:1500")
    return name, int(queue_id), int(offset)

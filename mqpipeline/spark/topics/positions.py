"""Start and end of a read: parses the user's text into a position. No IO."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mqclient.settings.checks import check_group

__all__ = [
    "EARLIEST",
    "LATEST",
    "GroupStart",
    "Position",
    "read_offsets",
    "read_start",
    "read_time",
]

EARLIEST, LATEST = "earliest", "latest"
_GROUP_PREFIX = "group:"
_FORMS = (
    'give earliest, latest, {"broker|topic|queue": offset, ...} or '
    '{"topic": {"broker": {"queue": offset, ...}}}'
)


@dataclass(frozen=True, slots=True)
class GroupStart:
    """The offsets that a consumer group committed."""

    group: str


Position = str | int | dict[str, int] | GroupStart | None
"""earliest or latest; milliseconds of the store's clock; offsets by "broker|topic|queue"; the
offsets of a group; None if the user does not say."""


def read_start(text: str) -> Position:
    """The option startingOffsets: what `read_offsets` reads, or "group:NAME"."""
    word = text.strip()
    if not word.startswith(_GROUP_PREFIX):
        return read_offsets(text, f"{_FORMS}, or group:NAME")
    return GroupStart(check_group(word.removeprefix(_GROUP_PREFIX).strip()))


def read_offsets(text: str, forms: str = _FORMS) -> Position:
    """earliest, latest, or offsets as JSON, flat or nested."""
    word = text.strip().lower()
    if word in (EARLIEST, LATEST):
        return word
    try:
        return _flat(json.loads(text))
    except (ValueError, TypeError, AttributeError):
        raise ValueError(forms) from None


def _flat(found: dict[str, Any]) -> dict[str, int]:
    """Offsets by "broker|topic|queue", from that form or from topic, broker and queue."""
    offsets = {}
    for key, value in found.items():
        if not isinstance(value, dict):
            offsets[key] = _offset(value)
            continue
        for broker, queues in value.items():
            for queue_id, at in queues.items():
                offsets[f"{broker}|{key}|{int(queue_id)}"] = _offset(at)
    return offsets


def _offset(value: Any) -> int:
    number = int(str(value))  # refuses 1.5 and true
    if number < 0:
        raise ValueError("an offset is not negative")
    return number


def read_time(text: str) -> int:
    """Milliseconds since 1970, from these or from ISO 8601 with an offset from UTC."""
    if text.strip().isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("give milliseconds or ISO 8601, 2026-11-21T07:30:00+00:00") from None
    if moment.tzinfo is None:
        raise ValueError(
            f"say which time zone: {text.strip()}+00:00 is UTC, {text.strip()}+02:00 is summer in "
            f"Berlin"
        )
    return int(moment.timestamp() * 1000)

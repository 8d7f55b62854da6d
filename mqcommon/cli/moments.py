"""Parses times on the command line."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Literal

__all__ = ["Start", "read_milliseconds", "read_moment", "read_start"]

FORM = "2026-01-31T12:00:00+00:00 (UTC without a zone), or -1h for an hour ago (s, m, h, d)"
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}

Start = Literal["earliest", "latest"] | datetime
"""The start of reading."""


def read_moment(text: str) -> datetime:
    """Parse ISO 8601, UTC if it has no zone, or a time before now: -30s, -5m, -1h, -7d.

    Raises ValueError.
    """
    try:
        if ago := re.fullmatch(r"-(\d+(?:\.\d+)?)([smhd])", text):
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: float(ago[1])})
        moment = datetime.fromisoformat(text)
    except (ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a time: give {FORM}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_milliseconds(text: str) -> int:
    """Parse the forms of `read_moment`, or milliseconds since 1970 with at least five digits.

    Raises ValueError.
    """
    if re.fullmatch(r"\d{5,}", text):
        return int(text)
    try:
        return round(read_moment(text).timestamp() * 1000)
    except ValueError as error:
        raise ValueError(f"{error}, or milliseconds since the epoch") from None


def read_start(text: str) -> Start:
    """Parse "earliest", "latest", or the forms of `read_milliseconds`. Raises ValueError."""
    if text == "earliest":
        return "earliest"
    if text == "latest":
        return "latest"
    try:
        return datetime.fromtimestamp(read_milliseconds(text) / 1000, UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{error}; or earliest, or latest") from None

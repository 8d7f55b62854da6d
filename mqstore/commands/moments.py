"""Times as users write them."""

from __future__ import annotations

import re
from datetime import UTC, datetime

__all__ = ["read_milliseconds", "read_moment"]

FORM = "2026-01-31T12:00:00+00:00 (UTC without a zone)"


def read_moment(text: str) -> datetime:
    """Read ISO 8601; UTC if it has no zone. Raises ValueError."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{text!r} is no time: give {FORM}") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def read_milliseconds(text: str) -> int:
    """Read ISO 8601 or milliseconds since 1970, of five digits or more. Raises ValueError."""
    if re.fullmatch(r"\d{5,}", text):
        return int(text)
    try:
        return round(read_moment(text).timestamp() * 1000)
    except ValueError as error:
        raise ValueError(f"{error}, or milliseconds since the epoch") from None

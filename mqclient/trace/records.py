"""Records of message trace, as RocketMQ writes them (`TraceDataEncoder`)."""

import time
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from mqcommon.property_text import NAME_END, PAIR_END

__all__ = ["TraceRecord"]

FIELD_END, RECORD_END = NAME_END, PAIR_END
"""Trace records use the separators of properties."""
NORMAL, HALF, COMMIT, DELAY = range(4)
STATES = {"COMMIT": "COMMIT_MESSAGE", "ROLLBACK": "ROLLBACK_MESSAGE", "UNKNOWN": "UNKNOW"}
SUCCESS, TIME_OUT, EXCEPTION, RETURN_NULL, FAILED = range(5)


class TraceRecord(NamedTuple):
    """One record, or the records of one handler call, and the keys to find it by."""

    text: str
    keys: Sequence[str]


def record_text(*fields: object) -> str:
    return FIELD_END.join(map(_text, fields)) + RECORD_END


def _text(field: object) -> str:
    """A field as Java's StringBuilder appends it."""
    if field is None:
        return "null"
    return str(field).lower() if isinstance(field, bool) else str(field)


def keys_of(msg_ids_and_keys: Iterable[str | None]) -> list[str]:
    return [key for key in msg_ids_and_keys if key]


def current_ms() -> int:
    return time.time_ns() // 1_000_000

"""What consumers want: tags, `A || B` or `*` for all; and SQL92 expressions (server.md B.10)."""

from __future__ import annotations

from functools import lru_cache

from mqstore import check_sql

SQL_BYTES_MAX = 64 * 1024
"""Bytes of the longest SQL92 expression that the core compiles."""


def codes_of(expression: str) -> list[int]:
    """The hash codes of the tags of an expression; none for `*`."""
    if expression == "*":
        return []
    return [java_hash(tag) for part in expression.split("||") if (tag := part.strip())]


def java_hash(text: str) -> int:
    """Java's String.hashCode: over UTF-16 code units, 32 bits, signed."""
    units = text.encode("utf-16-be")
    code = 0
    for position in range(0, len(units), 2):
        code = (31 * code + (units[position] << 8 | units[position + 1])) & 0xFFFFFFFF
    return code - (1 << 32) if code & 0x80000000 else code


def is_tag_type(kind: str | None) -> bool:
    """Whether expressions of this type are tags."""
    return kind in (None, "", "TAG")


def is_too_long(text: str) -> bool:
    """Whether an expression has more bytes than any broker compiles."""
    return len(text) > SQL_BYTES_MAX or len(text.encode(errors="replace")) > SQL_BYTES_MAX


def sql_error(kind: str | None, text: str) -> str | None:
    """Why an expression that is no tags cannot be used; None if it can."""
    if kind != "SQL92":
        return f"expression type {kind} is none of TAG and SQL92"
    # A long one is refused before it is kept.
    return _check(text) if is_too_long(text) else _sql_error(text)


@lru_cache(maxsize=100)
def _sql_error(text: str) -> str | None:
    """Kept for as many as RocketMQ's parser keeps: clients send theirs with every heartbeat."""
    return _check(text)


def _check(text: str) -> str | None:
    try:
        check_sql(text)
    except ValueError as error:
        return str(error)
    return None

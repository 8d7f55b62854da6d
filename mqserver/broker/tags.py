"""The types of a subscription's expression, and what is wrong with one in SQL92."""

from __future__ import annotations

from functools import lru_cache

from mqstore import check_sql

SQL_BYTES_MAX = 64 * 1024
"""Bytes of the longest SQL92 expression that the core compiles."""


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

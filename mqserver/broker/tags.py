"""The types of subscription expressions, and the check of SQL92 expressions."""

from __future__ import annotations

from functools import lru_cache

from mqstore import check_sql

SQL_BYTES_MAX = 64 * 1024
"""Length of the longest SQL92 expression that the core compiles, in bytes."""


def is_tag_type(kind: str | None) -> bool:
    """Whether expressions of this type are tags."""
    return kind in (None, "", "TAG")


def is_too_long(text: str) -> bool:
    """Whether an expression is longer than the core compiles."""
    return len(text) > SQL_BYTES_MAX or len(text.encode(errors="replace")) > SQL_BYTES_MAX


def sql_error(kind: str | None, text: str) -> str | None:
    """Why an expression of a type other than TAG cannot be used; None if it can."""
    if kind != "SQL92":
        return f"the expression type {kind} is unknown: use TAG or SQL92"
    # The cache below must not keep long expressions.
    return _check(text) if is_too_long(text) else _sql_error(text)


@lru_cache(maxsize=100)
def _sql_error(text: str) -> str | None:
    """Cache the result, as clients repeat their expressions in every heartbeat.

    RocketMQ's parser caches as many.
    """
    return _check(text)


def _check(text: str) -> str | None:
    try:
        check_sql(text)
    except ValueError as error:
        return str(error)
    return None

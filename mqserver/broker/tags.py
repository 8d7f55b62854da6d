"""What consumers want: tags, `A || B` or `*` for all; and SQL92 expressions (server.md B.10)."""

from __future__ import annotations

from functools import lru_cache

from mqstore import check_sql


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


@lru_cache(maxsize=100)
def sql_error(kind: str | None, text: str) -> str | None:
    """Why an expression that is no tags cannot be used; None if it can.

    Kept for as many as RocketMQ's parser keeps: clients send theirs with every heartbeat.
    """
    if kind != "SQL92":
        return f"expression type {kind} is none of TAG and SQL92"
    try:
        check_sql(text)
    except ValueError as error:
        return str(error)
    return None

"""Tag expressions: `A || B`, `*` for all (server.md B.10)."""

from __future__ import annotations


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

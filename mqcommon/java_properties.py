"""Java's properties format, used in configuration files and replies; with line numbers.

Rules of java.util.Properties: a logical line is a natural line, continued by an odd number of
trailing backslashes; the key ends at the first unescaped `=`, `:` or blank; leading blanks of
the value are dropped, trailing ones are kept by Java. RocketMQ trims neither; we trim the end,
because with a blank after a number, Java silently ignores the whole setting.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple

_BLANK = " \t\f"
_LINE_END = re.compile("\r\n|\r|\n")
_IN_KEYS = "=:#! \t\f"
_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


class Entry(NamedTuple):
    """One `key=value` and the number of its first line, from 1."""

    key: str
    value: str
    line: int


def parse(text: str) -> list[Entry]:
    """Parse properties text. Keep the order: if a key occurs twice, the later entry counts."""
    return [_entry(line, number) for number, line in _logical_lines(text)]


def read(text: str) -> dict[str, str]:
    """The value of each key; if a key occurs twice, the later entry counts."""
    return {entry.key: entry.value for entry in parse(text)}


def render(values: Mapping[str, str]) -> str:
    """Write properties text that `parse` and Java can read."""
    return "".join(
        f"{_escaped_key(key)}={_escaped_value(value)}\n" for key, value in values.items()
    )


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    """Join continued lines and drop blank and comment lines."""
    pending, first = "", 0
    for number, natural in enumerate(_LINE_END.split(text), start=1):
        line = natural.lstrip(_BLANK)
        if not pending and (not line or line[0] in "#!"):
            continue
        first = first if pending else number
        if _continues(line):
            pending += line[:-1]
            continue
        yield first, pending + line
        pending = ""
    if pending:
        yield first, pending


def _continues(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _entry(line: str, number: int) -> Entry:
    end = _key_end(line)
    rest = line[end:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return Entry(_unescaped(line[:end]), _unescaped(rest).rstrip(_BLANK), number)


def _key_end(line: str) -> int:
    escaped = False
    for position, char in enumerate(line):
        if not escaped and (char in "=:" or char in _BLANK):
            return position
        escaped = char == "\\" and not escaped
    return len(line)


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    position = 0
    while position < len(text):
        char = text[position]
        position += 1
        if char != "\\" or position == len(text):
            out.append(char)
            continue
        escape = text[position]
        position += 1
        digits = text[position : position + 4]
        if escape == "u" and len(digits) == 4 and all(d in _HEX for d in digits):
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(_ESCAPES.get(escape, escape))
    return "".join(out)


_HEX = frozenset("0123456789abcdefABCDEF")


def _escaped_key(key: str) -> str:
    return "".join(f"\\{char}" if char in _IN_KEYS else char for char in _escaped(key))


def _escaped_value(value: str) -> str:
    text = _escaped(value)
    return "\\" + text if text[:1] in tuple(_BLANK) else text


def _escaped(text: str) -> str:
    """Escape line breaks and backslashes."""
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace("\r", "\\r")

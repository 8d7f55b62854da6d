"""Turns of phrase that a reader must read twice, and how to write them.

`test_tidy.py` counts the lines of comments and docstrings that hold one. A hit is not always a
mistake, and a line without a hit is not always clear: read it aloud.
"""

from __future__ import annotations

import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple


class Turn(NamedTuple):
    """A turn of phrase. better: what to write instead. example: a text that holds it."""

    pattern: str
    better: str
    example: str


TURNS = (
    Turn(
        r"\b(?:whoever|whom)\b|\b(?:for|of|to|wakes|releases) who\b"
        r"|(?:^|[.;:,(] )who (?:want|wait|ask|read|park|come|has|had|is|take|took|send|get|need"
        r"|add|write|let|own|may|pause)",
        "name the client, thread or caller",
        "Who comes before the flush may wait for the next.",
    ),
    Turn(
        r"\bthat (?:many|much)\b|\b(?:of|for|every) so (?:many|often|long)\b"
        r"|\bso (?:many|often|long|much)(?:[,.]| (?:times|later|bytes|parts|threads|rounds|of"
        r"|does|is|are|as it)\b)",
        "give the number with its unit, or name the setting",
        "asked so often, it is given up",
    ),
    Turn(
        r"\bbehind (?:it|its|them|these|each other|the (?:record|reply|log|header|body|length"
        r"|properties|last|first|end|one|others))\b",
        '"after"',
        "The walk begins behind the record.",
    ),
    Turn(
        r"\btold\b|\btells (?:of|what|how|that|others|whether)\b",
        "say which part passes, reports, sends or returns it",
        "What the data plane is told of a broker.",
    ),
    Turn(
        r"\b(?:those|that) of |\bthose that "
        r"|\bwhat (?:it|they|is|was|were|came|comes|the|a|no|others|one) ",
        'repeat the noun: "the header of the reply", "the requests that wait"',
        "Its limits are those of the broker.",
    ),
    Turn(
        r"\b(?:go|goes|going|went) on\b",
        '"continue", "keep running", or the verb itself',
        "The thread goes on after an error.",
    ),
    Turn(
        r"\banew\b",
        '"again"; or rebuild, restart, reopen, reload',
        "The index is made anew.",
    ),
    Turn(
        r"\bnobody\b|\bno one\b",
        '"no client", "no thread"; or turn the sentence round',
        "A filter that nobody used is dropped.",
    ),
    Turn(
        r"\b(?:is|are|was|were) to be\b",
        '"must", "should", or the plain verb',
        "The file is to be closed first.",
    ),
    Turn(
        r"(?:^|[,;] )where (?:it|its|there|they|one|that|this|nothing|none|no|an?|the|he|both"
        r"|neither) ",
        '"if" or "when"',
        "The reply waits, where there is no room.",
    ),
    Turn(
        r"\b(?:lately|wherever|thereby|therein|whence|hence|nevertheless|by and by|in turns"
        r"|lets? go of)\b",
        "a word of today: recently, everywhere, so, in rotation, drop",
        "The buffer lets go of its pages.",
    ),
)
PATTERNS = [(re.compile(turn.pattern, re.IGNORECASE), turn) for turn in TURNS]


_ANY = re.compile("|".join(f"(?:{turn.pattern})" for turn in TURNS), re.IGNORECASE)


def found_in(line: str) -> Turn | None:
    """The first turn of phrase in a line."""
    if not _ANY.search(line):
        return None
    return next((turn for pattern, turn in PATTERNS if pattern.search(line)), None)


def lines_of(path: Path) -> Iterator[tuple[int, str]]:
    """Number and words of each line of a comment, docstring or other triple-quoted text."""
    text = path.read_text()
    if path.suffix == ".rs":
        for number, line in enumerate(text.splitlines(), 1):
            if line.lstrip().startswith("//"):
                yield number, line.strip().lstrip("/!").strip()
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string.lstrip("#: ")
        elif token.type == tokenize.STRING and token.string.endswith(('"""', "'''")):
            for number, line in enumerate(token.string.splitlines(), token.start[0]):
                yield number, line.strip().strip("\"'")


def read(path: Path) -> tuple[int, list[tuple[int, str, Turn]]]:
    """How many lines of prose a file has; number, text and turn of phrase of the marked ones."""
    lines = [(number, line) for number, line in lines_of(path) if line]
    marked = [(number, line, turn) for number, line in lines if (turn := found_in(line))]
    return len(lines), marked

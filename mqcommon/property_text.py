"""A message's properties as the text on the wire and on disk: name \\x01 value \\x02 and so on.

RocketMQ 4.9: `MessageDecoder.messageProperties2String`. `encode_properties` and
`decode_properties` of `mqcommon.message` convert whole mappings to this text and back. This module
is for code that adds a pair to a text and must keep the other pairs unchanged.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

NAME_END = "\x01"
PAIR_END = "\x02"


class Pair(NamedTuple):
    """A property of a text."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}{NAME_END}{self.value}"


def pairs_of(text: str) -> Iterator[Pair]:
    """The properties of a text in order; skips parts without a name or a value."""
    for piece in text.split(PAIR_END):
        name, _, value = piece.partition(NAME_END)
        if name and value:
            yield Pair(name, value)


def text_of(pairs: Iterable[Pair]) -> str:
    """The text of properties; their names and values must not contain a separator."""
    return PAIR_END.join(map(str, pairs))


PROPERTIES_BYTES_MAX = 32767
"""Most bytes of a message's properties as text."""

"""A message's properties as the text on the wire and on disk: name \\x01 value \\x02 and so on.

RocketMQ 4.9: `MessageDecoder.messageProperties2String`. `encode_properties` and
`decode_properties` of `mqstore.message` turn whole mappings into this text and back; this module
serves those who add a pair to a text, or must keep the other pairs as they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

NAME_END = "\x01"
PAIR_END = "\x02"


class Pair(NamedTuple):
    """A property as it stands in a text."""

    name: str
    value: str

    def __str__(self) -> str:
        return f"{self.name}{NAME_END}{self.value}"


def pairs_of(text: str) -> Iterator[Pair]:
    """The properties of a text in their order; pieces without a name or a value are left out."""
    for piece in text.split(PAIR_END):
        name, _, value = piece.partition(NAME_END)
        if name and value:
            yield Pair(name, value)


def text_of(pairs: Iterable[Pair]) -> str:
    """The text of properties whose names and values hold no separator."""
    return PAIR_END.join(map(str, pairs))

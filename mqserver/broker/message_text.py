"""Converts the properties text of a send to the text that is stored."""

from __future__ import annotations

from typing import NamedTuple

from mqcommon.property_text import Pair, pairs_of, text_of
from mqcommon.wire.bodies.base import BodyError


class Stored(NamedTuple):
    """The text to store, and the properties that decide how to store the message.

    wait: False with `WAIT=false`. delay_level: `DELAY`, 0 for none. half: a half message.
    """

    text: bytes
    wait: bool
    delay_level: int
    half: bool


def store_form(text: str, cluster: str, keep_wait: bool = False) -> Stored:
    """Add CLUSTER, remove WAIT, and drop pairs without a name or a value.

    keep_wait: keep WAIT in the text, as a batch does. Delayed and half messages keep WAIT too,
    because RocketMQ writes their text again from all properties. Raises BodyError if DELAY is not
    a number.
    """
    wait, delay, half = True, 0, False
    taken_out: list[Pair] = []
    kept: list[Pair] = []
    for pair in pairs_of(text):
        name, value = pair
        if name == "CLUSTER":
            continue
        if name == "WAIT":
            wait, taken_out = value.lower() == "true", [pair]
            continue
        if name == "TRAN_MSG":
            half = value.lower() == "true"
        elif name == "DELAY":
            delay = _level(value)
        kept.append(pair)
    if keep_wait or half or delay > 0:
        kept += taken_out
    kept.append(Pair("CLUSTER", cluster))
    return Stored(text_of(kept).encode(), wait, delay, half)


def _level(value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise BodyError(f"property DELAY={value!r} is not a number") from None

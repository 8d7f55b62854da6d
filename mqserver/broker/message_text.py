"""The properties text of a message on its way from a send to the store."""

from __future__ import annotations

from typing import NamedTuple

from mqclient.wire.bodies.base import BodyError
from mqstore.property_text import Pair, pairs_of, text_of


class Stored(NamedTuple):
    """What is stored, and what the text said about storing.

    wait: False with `WAIT=false`. delay_level: `DELAY`, 0 for none. half: a half message.
    """

    text: bytes
    wait: bool
    delay_level: int
    half: bool


def store_form(text: str, cluster: str, keep_wait: bool = False) -> Stored:
    """Add CLUSTER and take WAIT out; pairs without a name or value are left out.

    keep_wait: a batch keeps WAIT in its text. So do a delayed and a half message: RocketMQ writes
    their text anew, from all properties. Raises BodyError when DELAY is no number.
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
        raise BodyError(f"property DELAY={value!r} is no number") from None

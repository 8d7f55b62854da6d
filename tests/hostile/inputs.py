"""Invalid inputs: arbitrary bytes, and valid ones with one mistake."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

NUMBERS = st.one_of(
    st.integers(-3, 20),
    st.sampled_from([2**31 - 1, 2**31, -(2**31), 2**63 - 1, 2**63, -(2**63), 2**64, 10**30]),
    st.floats(),
)
TEXTS = st.one_of(
    st.text(max_size=20),
    st.sampled_from(
        ["", " ", "\x00", "a/b", "../../x", "%RETRY%", "%LMQ%x", "\ud800", "x" * 3_000]
    ),
)
SCALARS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(TEXTS, inner, max_size=4)),
    max_leaves=12,
)


@st.composite
def spoiled(draw: st.DrawFn, good: Any) -> Any:
    """A good value with one of its parts replaced, left out or doubled, however deep it lies."""
    if isinstance(good, dict) and good and draw(st.integers(0, 9)):
        key = draw(st.sampled_from(sorted(good)))
        rest = {name: value for name, value in good.items() if name != key}
        kind = draw(st.integers(0, 5))
        if kind == 0:
            return rest
        if kind == 1:
            return {**rest, draw(TEXTS): good[key]}
        return {**rest, key: draw(spoiled(good[key]))}
    if isinstance(good, list) and good and draw(st.integers(0, 9)):
        at = draw(st.integers(0, len(good) - 1))
        return [*good[:at], draw(spoiled(good[at])), *good[at : at + 1], *good[at + 1 :]]
    return draw(JUNK)


@st.composite
def spoiled_bytes(draw: st.DrawFn, good: bytes) -> bytes:
    """Good bytes with a few of them changed, cut out or doubled."""
    data = bytearray(good)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        kind = draw(st.integers(0, 4))
        if kind == 0:
            data[at : at + 1] = draw(st.binary(min_size=1, max_size=3))
        elif kind == 1 and data:
            data[at] ^= 1 << draw(st.integers(0, 7))
        elif kind == 2:
            del data[at : at + draw(st.integers(1, 9))]
        elif kind == 3:
            data[at:at] = data[at : at + draw(st.integers(1, 9))]
        else:
            del data[at:]
    return bytes(data)


def bodies(good: Any) -> st.SearchStrategy[bytes]:
    """JSON bodies: of anything, of a good value with something wrong, of spoiled bytes."""

    def text(value: Any) -> bytes:
        return json.dumps(value).encode()

    return st.one_of(
        spoiled(good).map(text),
        spoiled(good).flatmap(spoiled).map(text),
        spoiled_bytes(text(good)),
        JUNK.map(text),
        st.binary(max_size=80),
    )

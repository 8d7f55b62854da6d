"""Options that both Spark formats have, read from text; an unknown option is refused."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

from mqstore.names import tags_of

__all__ = ["queue_ids", "refuse_unknown", "tag_names"]

_OF_SPARK = frozenset({"path", "paths", "checkpointlocation", "serialization.format"})
"""Options that Spark itself adds: by load(path) and save(path), for streams, for tables."""


def refuse_unknown(given: Iterable[str], known: Iterable[str]) -> None:
    """Raise ValueError for an unknown option, naming the nearest; Spark ignores the case."""
    names = {name.lower(): name for name in known}
    for name in given:
        if name.lower() in names or name.lower() in _OF_SPARK:
            continue
        near = get_close_matches(name.lower(), names, 1)
        hint = f"did you mean {names[near[0]]}? " if near else ""
        raise ValueError(
            f"no option {name!r}; {hint}there are: {', '.join(sorted(names.values()))}"
        )


def queue_ids(text: str | None) -> frozenset[int] | None:
    """The option `queues`: "0,2" to queue ids, None for all."""
    if text is None or not text.strip():
        return None
    try:
        return frozenset(int(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f"option queues = {text!r}: give queue ids as 0,2") from None


def tag_names(text: str | None) -> frozenset[str] | None:
    """The option `tag`: "TagA || TagB" to names, None for all."""
    if text is None or text.strip() in ("", "*"):
        return None
    return frozenset(tags_of(text))

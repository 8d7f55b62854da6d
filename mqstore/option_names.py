"""Refuses unknown options of Spark's sources and sink."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["refuse_unknown"]

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

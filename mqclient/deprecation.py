"""Names that go away: they work, and warn with their successor for two minor versions."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["deprecated", "warn_deprecated"]

P = ParamSpec("P")
R = TypeVar("R")


def warn_deprecated(old: str, new: str, removed_in: str, *, stacklevel: int = 2) -> None:
    """Warn the caller's caller that a name goes away.

    removed_in: the version that no longer has the name.
    """
    words = f"{old} is deprecated and goes away in mqstack {removed_in}; use {new}"
    warnings.warn(words, DeprecationWarning, stacklevel=stacklevel + 1)


def deprecated(new: str, removed_in: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function or method that has a successor: each call warns.

    >>> @deprecated("Producer.send", "0.4")
    ... def put(): ...
    """

    def decorate(old: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(old)
        def call(*arguments: P.args, **options: P.kwargs) -> R:
            warn_deprecated(old.__qualname__, new, removed_in)
            return old(*arguments, **options)

        return call

    return decorate

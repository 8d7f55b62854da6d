"""Names that go away: they work, and warn with their successor for two minor versions."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__ = ["deprecated"]

P = ParamSpec("P")
R = TypeVar("R")


def deprecated(new: str, removed_in: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Decorate a function or method that has a successor: each call warns.

    removed_in: the version that no longer has the name.

    >>> @deprecated("Producer.send", "0.4")
    ... def put(): ...
    """

    def decorate(old: Callable[P, R]) -> Callable[P, R]:
        name = old.__qualname__
        words = f"{name} is deprecated and goes away in mqstack {removed_in}; use {new}"

        @functools.wraps(old)
        def call(*arguments: P.args, **options: P.kwargs) -> R:
            warnings.warn(words, DeprecationWarning, stacklevel=2)
            return old(*arguments, **options)

        return call

    return decorate

"""Checks of functions that a client will call, when they are given and not at their first call."""

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["check_takes", "takes"]


def takes(function: Callable[..., Any], *arguments: str) -> bool:
    """Whether a function accepts these arguments; True if its signature is unknown."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # written in C, without a signature
        return True
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def check_takes(what: str, function: object, *arguments: str, hint: str = "") -> None:
    """Raise TypeError unless a function can be called with arguments.

    what: its name for the error. arguments: their names. hint: what may have been meant.
    """
    if not callable(function):
        raise TypeError(f"{what} must be callable, not {type(function).__name__}")
    if not takes(function, *arguments):
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(
            f"{what} {name}{inspect.signature(function)} cannot be called with "
            f"({', '.join(arguments)}){hint and '; ' + hint}"
        )

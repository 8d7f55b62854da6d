"""The type of every client class, which keeps `help()` short."""

import inspect
import sys
from abc import ABCMeta

__all__ = ["ClientType"]

_EVERY_CLASS_HAS = {
    *("__abstractmethods__", "__annotations__", "__annotations_cache__", "__annotate_func__"),
    *("__del__", "__dict__", "__firstlineno__", "__init__", "__repr__", "__static_attributes__"),
    "__weakref__",
}
"""`help()` shows the options once, as the signature of the class."""
_ASKS_FOR_HELP = inspect.classify_class_attrs.__code__
"""How `help()`, and nothing else of Python, asks for the names of a class."""


class ClientType(ABCMeta):
    """Leaves names out of `dir` of a class that say nothing about it.

    It leaves out of `help` the methods that the docstring of the class lists in a line each
    (`settings.declare.explained`), because `help` shows a class with the whole text of every method
    that it inherits. `dir` has them, for completion and mocks. A subclass may have ABCMeta too.
    """

    def __dir__(cls) -> list[str]:
        left_out = set(_EVERY_CLASS_HAS)
        if sys._getframe(1).f_code is _ASKS_FOR_HELP and "_in_docstring" in vars(cls):
            left_out |= cls._in_docstring  # type: ignore[attr-defined]
            left_out |= {"__enter__", "__exit__", "__aenter__", "__aexit__"}
            left_out |= {"__iter__", "__next__", "__aiter__", "__anext__", "__class_getitem__"}
        return [name for name in super().__dir__() if name not in left_out]

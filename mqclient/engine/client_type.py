"""The type of every client class, which keeps `help()` short."""

from abc import ABCMeta

__all__ = ["ClientType"]

_EVERY_CLASS_HAS = {
    *("__annotations__", "__annotations_cache__", "__annotate_func__", "__del__", "__dict__"),
    *("__firstlineno__", "__init__", "__repr__", "__static_attributes__", "__weakref__"),
}
"""`help()` shows the options once, as the signature of the class."""


class ClientType(ABCMeta):
    """Leaves names out of `dir` and `help` of a class that say nothing about it.

    A subclass may have ABCMeta too.
    """

    def __dir__(cls) -> list[str]:
        return [name for name in super().__dir__() if name not in _EVERY_CLASS_HAS]

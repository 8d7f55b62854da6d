"""`dataclasses.dataclass` whose methods are compiled when they are first used.

The standard decorator compiles up to six functions per class while a module is imported. A server
imports sixty such classes before its port is open and calls a few of them; that was a third of
its start. What is called behaves, costs and fails as the standard one's, and `inspect.signature`
of a class is the same.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(
        cls: type | None = None,
        /,
        *,
        frozen: bool = False,
        slots: bool = False,
        kw_only: bool = False,
        order: bool = False,
    ) -> Any:
        """Make a class a dataclass, as `dataclasses.dataclass` does with these options."""

        def made(cls: type) -> type:
            return _made(cls, slots, {"frozen": frozen, "kw_only": kw_only, "order": order})

        return made if cls is None else made(cls)


_ORDER = ("__lt__", "__le__", "__gt__", "__ge__")


def _made(cls: type, slots: bool, options: dict[str, bool]) -> Any:
    """The class with its fields and slots, and stand-ins for the methods made from them."""
    body = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")}
    frozen = options["frozen"]
    made: Any = dataclasses.dataclass(
        init=False,
        repr=False,
        eq=False,
        slots=slots,
        kw_only=options["kw_only"],
        # Costs two functions, needed only where the standard decorator compares with a base.
        frozen=frozen and any(map(dataclasses.is_dataclass, cls.__bases__)),
    )(cls)
    made.__init__ = _stand_in(made, "__init__", body, options)
    made.__signature__ = _Signature()
    for name in ("__repr__", "__eq__", *(_ORDER if options["order"] else ())):
        if name not in body:
            setattr(made, name, _stand_in(made, name, body, options))
    if body.get("__hash__") is None:
        made.__hash__ = _stand_in(made, "__hash__", body, options) if frozen else None
    if frozen:
        made.__dataclass_params__.frozen = True
        made.__setattr__, made.__delattr__ = _refuse_set, _refuse_delete
        if slots and "__getstate__" not in body:
            made.__getstate__, made.__setstate__ = _state, _set_state
    return made


def _stand_in(made: type, name: str, body: dict[str, Any], options: dict[str, bool]) -> Any:
    """A method that puts the compiled one in its place, then calls it."""

    def compiled() -> Any:
        # The same class without slots, which do not matter to the code of its methods.
        same = type(made)(made.__name__, made.__bases__, dict(body))
        made_of_it = {
            "init": name == "__init__",
            "repr": name == "__repr__",
            "eq": name not in ("__init__", "__repr__"),
            "order": name in _ORDER,
        }
        method = getattr(dataclasses.dataclass(**{**options, **made_of_it})(same), name)
        method.__qualname__ = stand_in.__qualname__
        setattr(made, name, method)
        return method

    def stand_in(self: Any, *args: Any, **values: Any) -> Any:
        return compiled()(self, *args, **values)

    stand_in.__name__, stand_in.__qualname__ = name, f"{made.__qualname__}.{name}"
    stand_in.compiled = compiled  # type: ignore[attr-defined]
    return stand_in


class _Signature:
    """What `inspect.signature` finds: that of the class's own `__init__`, compiled for it."""

    def __get__(self, instance: object, owner: type) -> Any:
        import inspect

        method: Any = owner.__init__  # type: ignore[misc]
        signature = inspect.signature(getattr(method, "compiled", lambda: method)())
        return signature.replace(parameters=list(signature.parameters.values())[1:])


def _refuse_set(self: Any, name: str, value: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _refuse_delete(self: Any, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, item.name) for item in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for item, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, item.name, value)

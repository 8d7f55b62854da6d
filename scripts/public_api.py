"""Writes the public surface of the client: every exported name, its signature and its members.

`make pages` updates tests/client/public_api.txt. A change of the file is a change for users: say it
in CHANGELOG.md, and let a removed name warn first (see mqclient/deprecation.py).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cached_property
from importlib import import_module
from typing import Any, get_origin

MODULES = (
    "mqclient",
    "mqclient.aio",
    "mqclient.admin",
    "mqclient.errors",
    "mqclient.logging",
    "mqclient.metrics",
    "mqclient.middleware",
    "mqclient.mock",
    "mqclient.oms",
    "mqclient.otel",
    "mqclient.serializers",
)
_PLACE = re.compile(r"\b(?:[a-z_]+\.)+(?=[A-Z~])|~(?=[A-Z])")
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")
_FORWARD = re.compile(r"ForwardRef\('([^']*)'\)")


def page() -> str:
    """The text of the file."""
    shown: dict[int, str] = {}
    lines: list[str] = []
    for name in MODULES:
        module = import_module(name)
        lines += ["", f"# {name}"] if lines else [f"# {name}"]
        for exported in module.__all__:
            value = getattr(module, exported)
            known = shown.setdefault(id(value), f"{name}.{exported}")
            if known != f"{name}.{exported}":
                lines.append(f"{exported} = {known}")
            else:
                lines += _described(exported, value)
    return "\n".join(lines) + "\n"


def _described(name: str, value: Any) -> Iterator[str]:
    if inspect.isclass(value):
        yield from _class(name, value)
    elif callable(value):
        yield f"{name}{_signature(value)}"
    else:
        yield f"{name}: {type(value).__name__}"


def _class(name: str, value: type[Any]) -> Iterator[str]:
    bases = ", ".join(base.__name__ for base in value.__bases__ if base is not object)
    if issubclass(value, Enum):
        words = ", ".join(value.__members__)
        yield f"class {name}({bases}): {words}"
        return
    yield f"class {name}({bases}){_signature(value)}"
    members = dict(_members(value))
    if name == "Admin":
        for group, kind in _groups(value):
            members |= {f"{group}.{member}": text for member, text in _members(kind)}
    for member in sorted(members):
        yield f"    {member}{members[member]}"


def _groups(admin: Any) -> Iterator[tuple[str, type[Any]]]:
    """The groups of methods of an Admin, by the name of the attribute."""
    made = admin("127.0.0.1:9876")
    late = [name for name, value in vars(admin).items() if isinstance(value, cached_property)]
    for name in (*vars(made), *late):
        if not name.startswith("_"):
            yield name, type(getattr(made, name))


def _members(value: type[Any]) -> Iterator[tuple[str, str]]:
    if is_dataclass(value):
        yield from ((item.name, "") for item in fields(value) if not item.name.startswith("_"))
    for member in dir(value):
        if member.startswith("_") or hasattr(OSError, member):
            continue
        attribute = inspect.getattr_static(value, member)
        if isinstance(attribute, cached_property):  # a group of an Admin
            continue
        if isinstance(attribute, property):
            yield member, ": property"
        elif callable(getattr(value, member)):
            is_async = inspect.iscoroutinefunction(attribute)
            yield member, f"{_signature(attribute)}{' [async]' if is_async else ''}"
        elif not is_dataclass(value):
            yield member, ""


def _signature(value: Any) -> str:
    if isinstance(value, (staticmethod, classmethod)):
        value = value.__func__
    if get_origin(value) is not None:  # a type alias; newer CPythons give it a signature
        return "(...)"
    try:
        text = str(_unquoted(inspect.signature(value)))
    except (TypeError, ValueError):
        return "(...)"
    text = _FORWARD.sub(r"\1", text)
    return _ADDRESS.sub("", _PLACE.sub("", text)).replace("collections.abc.", "")


class _Text(str):
    """An annotation that is shown without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def _unquoted(signature: inspect.Signature) -> inspect.Signature:
    """Annotations are texts in modules with `from __future__ import annotations`."""

    def shown(annotation: Any) -> Any:
        return _Text(annotation) if type(annotation) is str else annotation

    parameters = [
        item.replace(annotation=shown(item.annotation)) for item in signature.parameters.values()
    ]
    return signature.replace(
        parameters=parameters, return_annotation=shown(signature.return_annotation)
    )

"""The API reference explains each argument of each public function of the client."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from mqclient import Admin

pytest.importorskip("mkdocs")

from scripts.docs_site import PACKAGES

LIKE_ANOTHER = re.compile(r"\b(?:[Aa]s|[Ll]ike|[Ss]ee)\s+(?:for\s+(?=[`A-Z])|(?=`))")
"""Says that the arguments are those of a function that is named."""


def functions(owner: Any) -> Iterator[tuple[str, Any]]:
    """The public functions that a class defines or inherits from ours."""
    for kind in owner.__mro__:
        if kind.__module__.startswith("mq"):
            for name, value in vars(kind).items():
                function = getattr(value, "__func__", value)
                if not name.startswith("_") and inspect.isfunction(function):
                    yield f"{owner.__name__}.{name}", function


def public_functions(package: str) -> Iterator[tuple[str, Any, str]]:
    """Name, function and the docstring of its class."""
    module = import_module(package)
    for name in module.__all__:
        value = getattr(module, name)
        if not getattr(value, "__module__", "").startswith("mq"):
            continue
        if inspect.isclass(value):
            for full, function in functions(value):
                yield full, function, inspect.getdoc(value) or ""
        elif inspect.isfunction(value):
            yield name, value, ""


def unexplained(function: Any, about_class: str) -> list[str]:
    text = inspect.getdoc(function) or ""
    if not text:
        return ["no docstring"]
    if LIKE_ANOTHER.search(text):
        return []
    arguments = [
        name for name in inspect.signature(function).parameters if name not in ("self", "cls")
    ]
    words = set(re.findall(r"\w+", f"{text} {about_class}"))
    return [name for name in arguments if not {name, name.removesuffix("s"), f"{name}s"} & words]


@pytest.mark.parametrize("package", [name for name in PACKAGES if name.startswith("mqclient")])
def test_every_argument_is_explained(package: str) -> None:
    if package == "mqclient.otel":
        pytest.importorskip("opentelemetry")
    missing = {
        name: found
        for name, function, about_class in public_functions(package)
        if (found := unexplained(function, about_class))
    }
    assert not missing


def test_every_argument_of_an_admin_is_explained() -> None:
    missing = {}
    for room in vars(Admin("127.0.0.1:9876")).values():
        kind = type(getattr(room, "_async", None))
        for name, function in (
            functions(kind) if kind.__module__.startswith("mqclient.admin") else ()
        ):
            if found := unexplained(function, inspect.getdoc(kind) or ""):
                missing[name] = found
    assert not missing

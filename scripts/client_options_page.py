"""Writes the page of the client's options from the settings classes.

`make pages` updates docs/client-options.md.
"""

from __future__ import annotations

import inspect
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, Field, fields
from datetime import timedelta
from typing import Any, Literal, get_args, get_origin, get_type_hints

from mqclient.settings import clients, consumers, producers

HEAD = """# Options of the client

`make pages` writes this page from the settings classes of `mqclient`.

Options are keyword arguments: `Producer("127.0.0.1:9876", timeout=5.0, retries=4)`. A client takes
the options of every client and the options of its kind. An unknown option is refused, and the error
names the nearest known option. Durations are seconds, or a `timedelta`.
"""

SECTIONS: dict[str, tuple[type[Any], type[Any], type[Any]]] = {
    "Every client": (clients.ClientSettings, object, clients.ClientOptions),
    "Producer": (producers.ProducerSettings, object, producers.ProducerOptions),
    "Transaction producer": (
        producers.TransactionSettings,
        producers.ProducerSettings,
        producers.TransactionOptions,
    ),
    "Push consumer": (consumers.ConsumerSettings, object, consumers.ConsumerOptions),
    "Lite pull consumer": (consumers.LitePullSettings, object, consumers.LitePullOptions),
}
"""By title: the settings class, its base class, and the types of the arguments."""
NOTES = {"Transaction producer": "It takes the options of a producer too."}


def page() -> str:
    """The page as Markdown."""
    parts = [HEAD]
    for title, (settings, base, options) in SECTIONS.items():
        parts.append(f"## {title}\n")
        parts.append(f"`{settings.__name__}`. {NOTES.get(title, '')}".strip() + "\n")
        parts += ["| option | type | default | meaning |", "|---|---|---|---|"]
        parts += _rows(settings, base, options)
        parts.append("")
    return "\n".join(parts)


def _rows(settings: type[Any], base: type[Any], options: type[Any]) -> Iterator[str]:
    inherited = {item.name for item in fields(base)} if base is not object else set()
    hints = {**get_type_hints(settings), **get_type_hints(options)}
    meanings = explained(settings)
    for item in fields(settings):
        if item.name not in inherited:
            cells = (
                f"`{item.name}`",
                _type_text(hints[item.name]),
                _default(item),
                meanings.get(item.name, ""),
            )
            yield f"| {' | '.join(cells)} |"


def explained(settings: type[Any]) -> dict[str, str]:
    """The meaning of each field, from a docstring of the form "name, other: text. next: text."."""
    names = "|".join(item.name for item in fields(settings))
    text = " ".join((inspect.getdoc(settings) or "").split())
    parts = re.split(rf"(?:^|(?<=\. ))((?:{names})(?:, (?:{names}))*): ", text)
    found: dict[str, str] = {}
    for listed, meaning in zip(parts[1::2], parts[2::2], strict=True):
        found |= dict.fromkeys(listed.split(", "), meaning.strip().rstrip("."))
    return found


def _type_text(hint: Any) -> str:
    if get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in sorted(get_args(hint)))
    if get_origin(hint) is Callable:
        return "function"
    if get_origin(hint) is os.PathLike:
        return "path"
    kinds = [kind for kind in get_args(hint) if kind is not type(None)] or [hint]
    if set(kinds) == {float, timedelta}:
        return "seconds"
    if isinstance(hint, type) and not get_args(hint):
        return hint.__name__
    if get_origin(hint) is Mapping:
        return "mapping"
    if get_origin(hint) in (tuple, Iterable, Sequence):
        return f"list of {get_args(hint)[0].__name__}"
    return " or ".join(_type_text(kind) for kind in kinds)


def _default(item: Field[Any]) -> str:
    value = item.default_factory() if item.default_factory is not MISSING else item.default
    if value is MISSING:
        return "required"
    return "" if value is None or value in ((), {}) else f"`{value!r}`"

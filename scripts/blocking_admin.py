"""Writes the groups of methods of the blocking Admin from the groups of the asyncio Admin.

`make pages` updates mqclient/blocking/admin_groups.py. The methods are written out, and not made at
run time, so that editors and type checkers know every one.
"""

from __future__ import annotations

import inspect
import pkgutil
import textwrap
from collections.abc import Iterator
from importlib import import_module

from mqclient import admin
from mqclient.admin.channel import Room

HEAD = '''"""The groups of methods of the blocking Admin: each runs the asyncio method to its end.

`make pages` writes this file from `mqclient/admin/`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mqclient.admin import {modules}
from mqclient.blocking.derive import BlockingFace, sync
from mqclient.blocking.loop_thread import LoopThread


class BlockingRoom(BlockingFace):
    """A group of methods: the asyncio one, and where to run its coroutines."""

    def __init__(self, client: Any, thread: Callable[[], LoopThread]) -> None:
        self._async = client
        self._thread = thread

    def _where(self) -> LoopThread:
        return self._thread()
'''


def page() -> str:
    """The text of the module."""
    found = dict(_groups())
    modules = ", ".join(found)
    if len(modules) > 60:
        modules = "(\n" + "".join(f"    {module},\n" for module in found) + ")"
    parts = [HEAD.replace("{modules}", modules)]
    for module, group in found.items():
        parts.append(f'\n\nclass {group.__name__}(BlockingRoom):\n    """{_docstring(group)}"""\n')
        lines = (
            f"    {name} = sync({module}.{group.__name__}.{name})\n"
            for name, value in vars(group).items()
            if inspect.iscoroutinefunction(value) and not name.startswith("_")
        )
        parts.append("\n" + "".join(lines))
    return "".join(parts)


def _groups() -> Iterator[tuple[str, type[Room]]]:
    """Each module of `mqclient/admin/` that defines a group, with the group."""
    for found in pkgutil.iter_modules(admin.__path__):
        module = import_module(f"{admin.__name__}.{found.name}")
        for value in vars(module).values():
            is_group = isinstance(value, type) and issubclass(value, Room) and value is not Room
            if is_group and value.__module__ == module.__name__:
                yield found.name, value


def _docstring(group: type) -> str:
    """The docstring, indented for the body of a class."""
    text = inspect.cleandoc(group.__doc__ or "")
    return textwrap.indent(f"{text}\n", "    ").lstrip() + "    " if "\n" in text else text

"""mqadmin context remove: forget a saved context."""

from __future__ import annotations

from mqadmin import contexts
from mqadmin.command import Arguments, Command
from mqadmin.context_rows import report
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(_admin: Admin, arguments: Arguments) -> Report:
    """Remove it from the file; the files that it names stay. Shows the contexts that are left."""
    name = arguments.required("name")
    with contexts.changing() as known:
        contexts.named(known, name)
        del known.contexts[name]
        if known.current == name:
            known.current = ""
    return report(known, *sorted(known.contexts))


CONTEXT_REMOVE = Command(
    "context remove",
    run,
    positional="NAME",
    connects=False,
    description="Forget a saved context; the files that it names stay",
)

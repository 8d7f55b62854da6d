"""mqadmin context use: choose the context of later commands."""

from __future__ import annotations

from mqadmin import contexts
from mqadmin.command import Arguments, Command, Option, UsageError
from mqadmin.context_rows import report
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(_admin: Admin, arguments: Arguments) -> Report:
    """Make a context current, or none."""
    name = arguments.text("name") or ""
    if bool(name) == arguments.flag("none"):
        raise UsageError("give the name of a context, or --none")
    with contexts.changing() as known:
        if name:
            contexts.named(known, name)
        known.current = name
    return report(known, *([name] if name else []))


CONTEXT_USE = Command(
    "context use",
    run,
    [Option("", "none", "Use no context in later commands", takes_value=False)],
    positional="[NAME]",
    connects=False,
    description="Choose the context of later commands",
)

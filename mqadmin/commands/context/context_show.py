"""mqadmin context show: one saved context."""

from __future__ import annotations

from mqadmin import contexts
from mqadmin.command import Arguments, Command
from mqadmin.context_rows import report
from mqadmin.report import Report
from mqclient.admin import Admin
from mqcommon.cli.running import WrongArguments


async def run(_admin: Admin, arguments: Arguments) -> Report:
    """Show the named context, or the current one."""
    known = contexts.load()
    name = arguments.text("name") or known.current
    if not name:
        raise WrongArguments("no context is current; name one, or choose it: mqadmin context use")
    contexts.named(known, name)
    return report(known, name)


CONTEXT_SHOW = Command(
    "context show",
    run,
    positional="[NAME]",
    connects=False,
    description="A saved context; the current one without a name",
)

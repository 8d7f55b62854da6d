"""mqadmin context list: the saved contexts."""

from __future__ import annotations

from mqadmin import contexts
from mqadmin.command import Arguments, Command
from mqadmin.context_rows import report
from mqadmin.report import Report
from mqclient.admin import Admin


async def run(_admin: Admin, _arguments: Arguments) -> Report:
    """Show all, by name."""
    known = contexts.load()
    return report(known, *sorted(known.contexts))


CONTEXT_LIST = Command(
    "context list", run, connects=False, description="Saved contexts, and which one is current"
)
